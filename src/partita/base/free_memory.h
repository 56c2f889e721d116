// How much memory this process can still allocate, and which limit applies.
//
//   const FreeMemory free = free_for_process(memory_limits(), ranks_on_this_machine);
//   if (needed > free.bytes) fail("{} needed, {} free ({})", human_bytes(needed), human_bytes(free.bytes), free.limit);
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

struct MemoryLimit {
  std::string name;          // for messages: "the memory of this machine", "the limit of the control group"
  int64_t free = 0;          // bytes
  bool per_process = false;  // false: shared by the ranks of a machine
};

// The limits in effect: available memory of the machine (including what can be swapped out for it); control groups
// (version 2 or 1, including parents); this process's address space (ulimit -v) and data (ulimit -d). Unreadable limits
// are omitted.
[[nodiscard]] std::vector<MemoryLimit> memory_limits();

struct FreeMemory {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  std::string limit;  // name of the tightest limit; empty: none known
};
// The minimum for each of `processes` with equal needs. Pure.
[[nodiscard]] FreeMemory free_for_process(std::span<const MemoryLimit>, int processes);

// Helpers, exposed for tests. Bytes of a line "MemAvailable:   123 kB" in /proc/meminfo or /proc/self/status; -1: not
// found.
[[nodiscard]] int64_t kilobytes_line(std::string_view text, std::string_view name);
// Limits of the control groups in `membership` (the text of /proc/self/cgroup), below `root` (/sys/fs/cgroup). Page
// cache counts as free, since the kernel can drop it. swap: bytes of free swap on the machine.
[[nodiscard]] std::vector<MemoryLimit> control_group_limits(const std::filesystem::path& root,
                                                            std::string_view membership, int64_t swap);

}  // namespace partita::internal
