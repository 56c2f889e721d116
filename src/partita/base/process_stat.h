// Parses /proc/PID/stat (man 5 proc): a process's parent and start time. GPU libraries take a second to load, and
// launchers wait: process_age() tells how long this process has been running.
//
//   const auto stat = process_stat(getppid());   // stat->name == "bash"
//   log::debug("ready after {:.1f} s", process_age());
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

struct ProcessStat {
  std::string name;     // at most 15 bytes, as the kernel keeps it; may contain spaces and parentheses
  int64_t parent = 0;   // 0: none in this PID namespace
  int64_t started = 0;  // in clock ticks since boot: distinguishes processes that reused a PID
};

// nullopt: no such process, or not available.
[[nodiscard]] std::optional<ProcessStat> process_stat(int64_t process);

// Pure. Parses the file's content.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Seconds since this process was started, to a hundredth; exec does not reset it. 0: not available.
[[nodiscard]] double process_age();

}  // namespace partita::internal
