#include "partita/shard/layout.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// The boxes of a parameter that this rank holds.
std::vector<LocalBox> held_boxes(const ParameterSpec& p) {
  return p.local.empty() ? std::vector<LocalBox>{{.box = whole_box(p.shape)}} : p.local;
}

// Calls visit(parameter, local box, its begin in the layout), in order.
template <class Visit>
void each_box(const Layout& layout, Visit visit) {
  for (size_t p = 0; p < layout.parameters.size(); ++p) {
    int64_t begin = layout.begin[p];
    for (const LocalBox& local : held_boxes(layout.parameters[p])) {
      visit(static_cast<int>(p), local, begin);
      begin += local.box.count();
    }
  }
}

}  // namespace

Layout make_layout(std::vector<ParameterSpec> parameters, int ranks) {
  PARTITA_CHECK(ranks >= 1, "ranks {}", ranks);
  std::ranges::stable_sort(parameters, [](const ParameterSpec& a, const ParameterSpec& b) {
    return a.decay != b.decay ? a.decay : a.shared() && !b.shared();
  });
  Layout layout{.parameters = std::move(parameters), .begin = {}, .count = 0, .ranks = ranks};
  for (const ParameterSpec& p : layout.parameters) {
    layout.begin.push_back(layout.count);
    layout.count = round_up(layout.count + p.local_count(), kAlignment);
  }
  layout.count = round_up(layout.count, ranks * kAlignment);
  return layout;
}

std::vector<Segment> slice_segments(const Layout& layout, int rank) {
  PARTITA_CHECK(rank >= 0 && rank < layout.ranks, "rank {} of {}", rank, layout.ranks);
  const int64_t begin = rank * layout.slice_count(), end = begin + layout.slice_count();
  std::vector<Segment> segments;
  each_box(layout, [&](int p, const LocalBox& local, int64_t at) {
    const int64_t first = std::max(begin, at), last = std::min(end, at + local.box.count());
    if (first < last)
      segments.push_back({.parameter = p,
                          .in_box = first - at,
                          .in_slice = first - begin,
                          .count = last - first,
                          .box = local.box,
                          .primary = local.primary});
  });
  return segments;
}

std::vector<FlatRun> counted_runs(const Layout& layout, int rank) {
  std::vector<FlatRun> runs;
  int64_t begin = 0;
  for (const Segment& s : slice_segments(layout, rank)) {
    if (s.primary) continue;
    if (s.in_slice > begin) runs.push_back({begin, s.in_slice - begin});
    begin = s.in_slice + s.count;
  }
  if (begin < layout.slice_count()) runs.push_back({begin, layout.slice_count() - begin});
  return runs;
}

std::vector<SharedRun> shared_runs(const Layout& layout) {
  // Neighbors become one run where all holders see the same: boxes of a parameter without a gap, and whole parameters.
  std::vector<SharedRun> runs;
  int before = -1;     // parameter of the last run
  bool whole = false;  // it is shared as a whole
  each_box(layout, [&](int p, const LocalBox& local, int64_t begin) {
    if (!local.shared()) return;
    const bool is_whole = layout.parameters[static_cast<size_t>(p)].shared();
    if (!runs.empty() && runs.back().first_holder == local.first_holder && runs.back().holders == local.holders &&
        (p == before ? runs.back().run.begin + runs.back().run.count == begin : p == before + 1 && whole && is_whole))
      runs.back().run.count = begin + local.box.count() - runs.back().run.begin;
    else
      runs.push_back({{begin, local.box.count()}, local.first_holder, local.holders});
    before = p, whole = is_whole;
  });
  return runs;
}

}  // namespace partita::internal
