// What /proc/PID/stat says of a process (man 5 proc): its parent, and when it was started. Libraries for a GPU take a
// second to load, and launchers wait: process_age() tells how long this process has been running.
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
  std::string name;     // 15 bytes at most, as the kernel keeps it; it may hold spaces and parentheses
  int64_t parent = 0;   // 0: none in this name space
  int64_t started = 0;  // in clock ticks since boot: tells two processes apart that had one number
};

// Nothing: there is no such process, or the system does not say.
[[nodiscard]] std::optional<ProcessStat> process_stat(int64_t process);

// Pure. The content of such a file.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Seconds, to a hundredth, since this process was started; an exec does not begin it again. 0: the system does not say.
[[nodiscard]] double process_age();

}  // namespace partita::internal
