// Which buffers may lie in the same memory: those that are not needed at the same time. Pure.
//
//   MemoryPlan plan = plan_memory({{.bytes = 800, .first = 0, .last = 5}, {.bytes = 300, .first = 6, .last = 9}});
//   plan.offset[1] == 0, plan.bytes == 1024                      // the second begins where the first has ended
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace partita::internal {

// A buffer and the moments, numbered in the order of the program, of its first and last use. bytes 0: takes no memory.
struct Lifetime {
  int64_t bytes;
  int first, last;
};

struct MemoryPlan {
  std::vector<int64_t> offset;  // of each buffer, a multiple of kMemoryAlignment
  int64_t bytes = 0;            // of all
};

inline constexpr int64_t kMemoryAlignment = 256;

// Buffers whose lifetimes meet do not overlap. The largest are placed first, each as low as it fits (Y. Pisarchyk, J.
// Lee, "Efficient memory management for deep neural net inference", 2020: greedy by size); of equal ones that which
// ends, and then begins, first, so that what is left lies together.
[[nodiscard]] MemoryPlan plan_memory(std::span<const Lifetime>);

}  // namespace partita::internal
