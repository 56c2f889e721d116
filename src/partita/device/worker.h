// Work of the host beside the thread that issues everything: one thread, one piece of work after the other.
//
//   Event updated = worker.submit([&] {
//     optimizer.step(...);                                  // on the host
//     return copies.up(slice, staging, {});
//   });
//   ...
//   compute.wait(updated);                                  // for the work, and for the copy that it began
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
  Worker();   // its thread computes on the device that is current here
  ~Worker();  // what was given is done first
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The event: the work is done, and so is the event that it returned. wait() raises the work's error; later work is
  // done all the same.
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
