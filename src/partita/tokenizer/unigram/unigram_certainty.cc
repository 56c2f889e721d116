#include "partita/tokenizer/unigram/unigram_certainty.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace partita::internal {

UnigramCertainty::Certain UnigramCertainty::segment(const UnigramLattice<float>& lattice, std::string_view unit) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr uint32_t kUnreached = UINT32_MAX;
  const auto size = static_cast<uint32_t>(unit.size());
  places_.assign(size + 1, {0, kInfinity, kUnreached, UnigramPiece::kUnknown});
  double largest = 0;  // largest magnitude of a sum
  int64_t characters = 0;
  for (uint32_t begin = 0; begin < size; ++characters) {
    const double sum = places_[begin].sum;
    const auto character = static_cast<uint32_t>(char_bytes(unit, begin));
    lattice.for_each_piece(unit, begin, character, [&](uint32_t end, TokenId id, float score) {
      Place& place = places_[end];
      const double candidate = sum + score;
      largest = std::max(largest, std::abs(candidate));
      if (place.begin == kUnreached) {
        place = {candidate, kInfinity, begin, id};
      } else if (candidate > place.sum) {
        place = {candidate, candidate - place.sum, begin, id};
      } else {
        place.margin = std::min(place.margin, place.sum - candidate);
      }
    });
    begin += character;
  }
  double margin = kInfinity;
  pieces_.clear();
  for (uint32_t end = size; end > 0; end = places_[end].begin) {
    pieces_.push_back({places_[end].begin, end, places_[end].id});
    margin = std::min(margin, places_[end].margin);
  }
  std::reverse(pieces_.begin(), pieces_.end());
  // A float's last place is at most 2^-23 of its value. Count one addition more, for the error of the doubles here.
  const double last_place = std::ldexp(1.0, -23);
  const double by_rounding = margin / (static_cast<double>(characters + 1) * last_place);
  // Also, no sum in the unit may reach the threshold where sums restart.
  const double by_reset = 0.99 * static_cast<double>(lattice.reset_beyond());
  const double most = std::min(by_rounding, by_reset) - largest;
  return {pieces_, most > 0 ? static_cast<float>(0.999 * most) : 0.0F};
}

}  // namespace partita::internal
