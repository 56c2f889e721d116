// A background thread with a FIFO of tasks, so that host work overlaps with the thread that issues all device work.
//
//   Event updated = worker.submit([&] {
//     optimizer.step(...);                                  // on the host
//     return copies.up(slice, staging, {});
//   });
//   ...
//   compute.wait(updated);                                  // for the task and the copy that it started
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "partita/device/stream.h"

namespace partita::internal {

class Worker {
 public:
  Worker();   // its thread uses the current device of the caller
  ~Worker();  // finishes submitted tasks first
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The returned event happens after the task and the event that it returned. wait() rethrows the task's error; later
  // tasks still run.
  [[nodiscard]] Event submit(std::function<Event()> work);

 private:
  class Task;
  void run();

  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::shared_ptr<Task>> tasks_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace partita::internal
