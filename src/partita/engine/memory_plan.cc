#include "partita/engine/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace partita::internal {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment; }

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> buffers) {
  MemoryPlan plan{.offset = std::vector<int64_t>(buffers.size(), 0)};
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](size_t i) { return std::tuple(-buffers[i].bytes, buffers[i].last, buffers[i].first); });

  std::vector<size_t> placed;  // sorted by offset
  for (const size_t i : order) {
    const int64_t bytes = aligned(buffers[i].bytes);
    if (bytes == 0) continue;
    int64_t offset = 0;
    for (const size_t other : placed) {
      if (!meet(buffers[i], buffers[other])) continue;
      if (offset + bytes <= plan.offset[other]) break;  // the gap below it is large enough
      offset = std::max(offset, plan.offset[other] + aligned(buffers[other].bytes));
    }
    plan.offset[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, [&](size_t p) { return plan.offset[p]; }), i);
  }
  return plan;
}

}  // namespace partita::internal
