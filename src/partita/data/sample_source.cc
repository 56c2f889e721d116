#include "partita/data/sample_source.h"

#include <algorithm>
#include <numeric>

namespace partita {

void pad_from(const SampleSlots& out, int64_t at) {
  const auto begin = static_cast<size_t>(at);
  std::ranges::fill(out.tokens.subspan(begin), 0);
  std::ranges::fill(out.labels.subspan(begin), kIgnoredLabel);
  const auto positions = out.positions.subspan(begin);
  std::iota(positions.begin(), positions.end(), begin == 0 ? 0 : out.positions[begin - 1] + 1);
  if (out.first_keys.empty()) return;
  const auto first_keys = out.first_keys.subspan(begin);
  std::iota(first_keys.begin(), first_keys.end(), static_cast<int32_t>(at));
}

}  // namespace partita
