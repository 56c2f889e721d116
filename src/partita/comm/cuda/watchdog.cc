#include "partita/comm/cuda/watchdog.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "partita/base/cuda_error.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/comm/call_text.h"
#include "partita/comm/world.h"

namespace partita::internal {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
// Time for the main thread to notice the error and end the job itself; it may be waiting for the device.
constexpr std::chrono::seconds kGrace{20};

}  // namespace

Watchdog::Watchdog(std::string group, int rank, int size, std::chrono::milliseconds timeout, Backend backend)
    : group_(std::move(group)), rank_(rank), size_(size), timeout_(timeout), backend_(std::move(backend)) {
  PARTITA_CUDA_CHECK(cudaGetDevice(&device_));
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() { stop(); }

void Watchdog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Watchdog::Posting::Posting(Watchdog* watchdog, const Call& call) : watchdog_(watchdog) {
  if (watchdog_ == nullptr) return;
  const std::lock_guard lock(watchdog_->mutex_);
  watchdog_->posting_ = Entry{call, nullptr, Clock::now()};
}

Watchdog::Posting::~Posting() {
  if (watchdog_ == nullptr) return;
  const std::lock_guard lock(watchdog_->mutex_);
  watchdog_->posting_.reset();
}

void Watchdog::add(const Call& call, std::shared_ptr<CudaEventState> end) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({call, std::move(end), Clock::now()});
}

void Watchdog::check() {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) return;
  noticed_ = true;
  changed_.notify_all();
  throw Interrupted(failure_);
}

void Watchdog::run() {
  (void)cudaSetDevice(device_);
  // Querying an event must not invalidate a graph capture on another thread.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::string wrong;
    try {
      wrong = look();
    } catch (const std::exception& error) {
      wrong = fmt::format("{} on rank {} of {}: {}", group_, rank_, size_, failure_text(error));
    }
    if (!wrong.empty()) return fail_with(std::move(wrong), lock);
    changed_.wait_for(lock, kInterval, [this] { return stop_; });
  }
}

std::string Watchdog::look() {
  while (!entries_.empty() && entries_.front().end->test()) {
    entries_.pop_front();
    progress_ = Clock::now();
  }
  const std::string error = backend_.error();
  if (!error.empty()) {
    const std::string where = entries_.empty() ? group_ : text(entries_.front().call);
    return fmt::format("{} failed on rank {} of {}: {}", where, rank_, size_, error);
  }
  // A collective queued behind others is not late: the first one is.
  const Entry* late = nullptr;
  if (!entries_.empty() && is_late(entries_.front())) late = &entries_.front();
  if (entries_.empty() && posting_ && is_late(*posting_)) late = &*posting_;
  if (late == nullptr) return {};
  return fmt::format(
      "{} did not finish within {} s (parallel.timeout_seconds) on rank {} of {}: another rank did not arrive, or "
      "computes something else; look "
      "at the ranks that print no such line",
      text(late->call), std::chrono::duration<double>(timeout_).count(), rank_, size_);
}

bool Watchdog::is_late(const Entry& entry) const { return Clock::now() - std::max(entry.since, progress_) >= timeout_; }

std::string Watchdog::text(const Call& call) const {
  return fmt::format("{} ({} bytes)", call_text(group_, call.kind, call.number, call.peer), call.bytes);
}

void Watchdog::fail_with(std::string message, std::unique_lock<std::mutex>& lock) {
  failure_ = std::move(message);
  log::error("{}", failure_);
  lock.unlock();
  backend_.abort();
  lock.lock();
  changed_.wait_for(lock, kGrace, [this] { return stop_ || noticed_; });
  if (!stop_ && !noticed_) World::abort(1);
}

}  // namespace partita::internal
