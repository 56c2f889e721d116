// A background thread with a queue of tasks, so that host work overlaps with the thread that issues all device work.
//
//   Event updated = worker.submit([&] {
//     optimizer.step(...);                                  // on the host
//     return copies.up(slice, staging, {});
//   });
//   ...
//   compute.wait(updated);                                  // for the task and the copy that it started
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "partita/device/stream.h"

namespace partita::internal {

class Worker {
 public:
  Worker();   // its thread uses the current device of the caller
  ~Worker();  // finishes submitted tasks first
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  struct Turn {
    int priority = 0;  // the lowest first
    Event ready;       // the task is passed over until this has happened
  };
  // Tasks of one priority that are ready run in FIFO order. The returned event happens after the task and the event
  // that it returned. wait() rethrows the task's error; later tasks still run.
  [[nodiscard]] Event submit(std::function<Event()> work, Turn turn);
  [[nodiscard]] Event submit(std::function<Event()> work) { return submit(std::move(work), {}); }

 private:
  class Task;
  struct Queued {
    std::shared_ptr<Task> task;
    Turn turn;
    int64_t number;
  };
  void run();
  // Blocks until a task may run, if none may.
  [[nodiscard]] std::shared_ptr<Task> take(std::unique_lock<std::mutex>&);

  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<Queued> tasks_;
  int64_t next_ = 0;  // number of the next task
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace partita::internal
