// Whether the best segmentation of a unit depends on how the sums up to it were rounded: so that it can be remembered.
//
//   UnigramCertainty certainty;
//   const auto certain = certainty.segment(lattice, unit);
//   if (std::abs(walk.sum()) < certain.most_sum) use(certain.pieces);      // what lattice.segment(unit, walk) gives
//
// Sums of floats over a long text are large and coarse; a segmentation that wins by little may lose by rounding. Each
// of the at most n additions in a unit of n characters is wrong by half a unit in the last place of the largest sum, so
// two candidates for a place that differ by more than n such units are told apart whatever the sum up to the unit.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "partita/tokenizer/unigram/unigram_lattice.h"

namespace partita::internal {

class UnigramCertainty {
 public:
  struct Certain {
    std::span<const UnigramPiece> pieces;  // valid until the next call
    float most_sum;                        // the pieces are right while the sum's magnitude is below; 0: never
  };
  [[nodiscard]] Certain segment(const UnigramLattice<float>& lattice, std::string_view unit);

 private:
  struct Place {
    double sum, margin;  // ahead of the second best candidate by
    uint32_t begin;
    TokenId id;
  };
  std::vector<Place> places_;
  std::vector<UnigramPiece> pieces_;
};

}  // namespace partita::internal
