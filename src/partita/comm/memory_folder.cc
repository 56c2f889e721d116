#include "partita/comm/memory_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>
#include <system_error>

#include "partita/comm/environment.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "steps-";

int64_t read_counter(int file) {
  int64_t step = 0;
  return pread(file, &step, sizeof step, 0) == sizeof step ? step : 0;
}

}  // namespace

fs::path memory_folder_of_job() { return process_environment()(kMemoryFolder).value_or(""); }

StepCounter::StepCounter(const fs::path& folder, const std::string& run) {
  if (folder.empty()) return;
  file_ = open((folder / (std::string(kPrefix) + run)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file_ >= 0) most_ = read_counter(file_);
}

StepCounter::~StepCounter() {
  if (file_ >= 0) close(file_);
}

void StepCounter::set(int64_t step) {
  if (file_ < 0 || step <= most_) return;
  most_ = step;
  (void)!pwrite(file_, &step, sizeof step, 0);
}

int64_t steps_reached(const fs::path& folder) {
  int64_t sum = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const int file = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    sum += read_counter(file);
    close(file);
  }
  return sum;
}

}  // namespace partita::internal
