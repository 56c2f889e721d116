#include "partita/base/trace.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

namespace partita::internal {
namespace {

std::atomic<bool> wanted = false;
std::mutex mutex;
std::vector<HostSpan> ended;

}  // namespace

bool trace::on() { return wanted.load(std::memory_order_relaxed); }

int64_t trace::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void trace::start() {
  const std::lock_guard lock(mutex);
  ended.clear();
  wanted = true;
}

std::vector<HostSpan> trace::stop() {
  const std::lock_guard lock(mutex);
  wanted = false;
  return std::exchange(ended, {});
}

void TraceSpan::end() const {
  const int64_t now = trace::now();
  const std::lock_guard lock(mutex);
  if (!wanted) return;
  ended.push_back({.name = index_ < 0 ? std::string(name_) : std::string(name_) + " " + std::to_string(index_),
                   .begin = begin_,
                   .end = now});
}

}  // namespace partita::internal
