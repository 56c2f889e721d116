#include "partita/base/process_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "partita/base/free_memory.h"

namespace partita::internal {

ProcessMemory parse_process_memory(std::string_view status) {
  const auto line = [status](std::string_view name) { return std::max<int64_t>(0, kilobytes_line(status, name)); };
  return {.own = line("RssAnon") + line("RssShmem"), .files = line("RssFile"), .peak = line("VmHWM")};
}

ProcessMemory process_memory() {
  std::ifstream file("/proc/self/status", std::ios::binary);
  return parse_process_memory(std::string{std::istreambuf_iterator<char>(file), {}});
}

ResidentPeak::ResidentPeak() {
  std::ofstream("/proc/self/clear_refs") << "5\n";  // resets VmHWM; kernels without it keep an earlier, larger peak
  before_ = process_memory();
  most_ = before_.own;
}

void ResidentPeak::sample() {
  const ProcessMemory now = process_memory();
  most_ = std::max(most_, now.own);
  files_ = std::max(files_, now.files);
}

int64_t ResidentPeak::bytes() {
  const ProcessMemory now = process_memory();
  // A peak from before, which could not be reset, says nothing.
  const int64_t by_system = now.peak > before_.peak ? now.peak - std::max(now.files, files_) : 0;
  most_ = std::max({most_, now.own, by_system});
  return most_ - before_.own;
}

}  // namespace partita::internal
