// Physical memory of this process (man 5 proc, /proc/PID/status).
//
//   ResidentPeak peak;                 // from here on
//   ...
//   peak.bytes()                       // the most that the process has gained since
//
// Pages of files, such as token files and libraries, are not counted: the kernel can drop them.
#pragma once
#include <cstdint>
#include <string_view>

namespace partita::internal {

struct ProcessMemory {
  int64_t own = 0;    // bytes that are no pages of files: allocated, or shared between processes
  int64_t files = 0;  // pages of files
  int64_t peak = 0;   // the most of both together, since the process was started or the peak was reset
};
// Zeros: not available.
[[nodiscard]] ProcessMemory process_memory();
// Of the file's content. Pure.
[[nodiscard]] ProcessMemory parse_process_memory(std::string_view status);

class ResidentPeak {
 public:
  // Resets the process's peak, where the system permits it.
  ResidentPeak();
  // Call it now and then: the system's peak includes pages of files, of which the most seen is taken off.
  void sample();
  // The most own memory seen, less what there was at construction. 0: not available.
  [[nodiscard]] int64_t bytes();

 private:
  ProcessMemory before_;
  int64_t most_ = 0, files_ = 0;
};

}  // namespace partita::internal
