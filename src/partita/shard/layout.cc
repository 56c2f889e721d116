#include "partita/shard/layout.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

Layout make_layout(std::vector<ParameterSpec> parameters, int ranks) {
  PARTITA_CHECK(ranks >= 1, "ranks {}", ranks);
  std::ranges::stable_sort(parameters, [](const auto& a, const auto& b) { return a.decay > b.decay; });
  Layout layout{.parameters = std::move(parameters), .begin = {}, .count = 0, .ranks = ranks};
  for (const ParameterSpec& p : layout.parameters) {
    layout.begin.push_back(layout.count);
    layout.count = round_up(layout.count + p.count(), kAlignment);
  }
  layout.count = round_up(layout.count, ranks * kAlignment);
  return layout;
}

std::vector<Segment> slice_segments(const Layout& layout, int rank) {
  PARTITA_CHECK(rank >= 0 && rank < layout.ranks, "rank {} of {}", rank, layout.ranks);
  const int64_t begin = rank * layout.slice_count(), end = begin + layout.slice_count();
  std::vector<Segment> segments;
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    const int64_t first = std::max(begin, layout.begin[p]);
    const int64_t last = std::min(end, layout.begin[p] + layout.parameters[p].count());
    if (first < last) segments.push_back({static_cast<int>(p), first - layout.begin[p], first - begin, last - first});
  }
  return segments;
}

}  // namespace partita::internal
