// Determines when the best segmentation of a unit is independent of rounding in the preceding sum, so that it can be
// cached.
//
//   UnigramCertainty certainty;
//   const auto certain = certainty.segment(lattice, unit);
//   if (std::abs(walk.sum()) < certain.most_sum) use(certain.pieces);      // what lattice.segment(unit, walk) gives
//
// Float sums over a long text are large and coarse, so a segmentation that wins by little may lose by rounding. In a
// unit of n characters, each of at most n additions is off by at most half a unit in the last place of the largest sum.
// Two candidates that differ by more than n such units therefore rank the same whatever the preceding sum.
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
    float most_sum;                        // the pieces are valid while the sum's magnitude is below this; 0: never
  };
  [[nodiscard]] Certain segment(const UnigramLattice<float>& lattice, std::string_view unit);

 private:
  struct Place {
    double sum, margin;  // margin: lead over the second best candidate
    uint32_t begin;
    TokenId id;
  };
  std::vector<Place> places_;
  std::vector<UnigramPiece> pieces_;
};

}  // namespace partita::internal
