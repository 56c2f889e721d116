// How much memory this process may still take, and what limits it.
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
  bool per_process = false;  // else the ranks of a machine share it
};

// Those that are set: memory that is available or can be swapped out for it; the control group's (version 2 or 1, with
// those above it); of this process its address space (ulimit -v) and its data (ulimit -d). A limit that cannot be read
// is not among them.
[[nodiscard]] std::vector<MemoryLimit> memory_limits();

struct FreeMemory {
  int64_t bytes = std::numeric_limits<int64_t>::max();
  std::string limit;  // the name of the limit that decides; empty: none is known
};
// For each of `processes` that want the same: the least. Pure.
[[nodiscard]] FreeMemory free_for_process(std::span<const MemoryLimit>, int processes);

// The parts, for tests. Bytes of a line "MemAvailable:   123 kB" of /proc/meminfo or /proc/self/status; -1: not there.
[[nodiscard]] int64_t kilobytes_line(std::string_view text, std::string_view name);
// Limits of the control groups that `membership` (the text of /proc/self/cgroup) names, below `root` (/sys/fs/cgroup).
// Pages of files count as free: the kernel drops them. swap: bytes of the machine's swap that are free.
[[nodiscard]] std::vector<MemoryLimit> control_group_limits(const std::filesystem::path& root,
                                                            std::string_view membership, int64_t swap);

}  // namespace partita::internal
