// Places buffers in one memory block so that buffers with disjoint lifetimes may share addresses. Pure.
//
//   MemoryPlan plan = plan_memory({{.bytes = 800, .first = 0, .last = 5}, {.bytes = 300, .first = 6, .last = 9}});
//   plan.offset[1] == 0, plan.bytes == 1024                      // the second reuses the memory of the first
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace partita::internal {

// A buffer and the moments of its first and last use, numbered in program order. bytes 0: takes no memory.
struct Lifetime {
  int64_t bytes;
  int first, last;
};

struct MemoryPlan {
  std::vector<int64_t> offset;  // of each buffer, a multiple of kMemoryAlignment
  int64_t bytes = 0;            // total
};

inline constexpr int64_t kMemoryAlignment = 256;

// Buffers whose lifetimes intersect do not overlap. Greedy by size (Y. Pisarchyk, J. Lee, "Efficient memory management
// for deep neural net inference", 2020): largest first, each at the lowest offset that fits. Ties are ordered by last,
// then first use, so that remaining gaps are contiguous.
[[nodiscard]] MemoryPlan plan_memory(std::span<const Lifetime>);

}  // namespace partita::internal
