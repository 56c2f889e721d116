#include "partita/base/thread_limit.h"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "partita/base/error.h"

namespace partita::internal {

void require_threads(int64_t count) {
  if (count > kMostThreads)
    fail("{} threads per rank were asked for, at most {} are possible: lower train.threads or OMP_NUM_THREADS", count,
         kMostThreads);
  std::mutex mutex;
  std::condition_variable over;
  bool ends = false;
  std::vector<std::thread> started;  // all running concurrently, in addition to this one
  bool refused = false;
  try {
    started.reserve(static_cast<size_t>(count));
    for (int64_t i = 1; i < count; ++i)
      started.emplace_back([&] {
        std::unique_lock lock(mutex);
        over.wait(lock, [&] { return ends; });
      });
  } catch (const std::system_error&) {
    refused = true;
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  {
    const std::lock_guard lock(mutex);
    ends = true;
  }
  over.notify_all();
  for (std::thread& thread : started) thread.join();
  if (refused)
    fail(
        "{} threads per rank were asked for, and the system started only {}: lower train.threads or OMP_NUM_THREADS, "
        "or raise the limits (ulimit -u, ulimit -v)",
        count, started.size() + 1);
}

}  // namespace partita::internal
