#include "partita/device/worker.h"

#include <algorithm>
#include <exception>

#include "partita/device/current_device.h"

namespace partita::internal {
namespace {

// The task itself meets the error of what it waits for.
bool has_happened(const Event& event) {
  try {
    return event.done();
  } catch (...) {
    return true;
  }
}

void wait_for(const Event& event) {
  try {
    event.wait();
  } catch (...) {
  }
}

}  // namespace

class Worker::Task final : public EventState {
 public:
  explicit Task(std::function<Event()> work) : work_(std::move(work)) {}

  void run() {
    Event after;
    std::exception_ptr error;
    try {
      after = work_();
    } catch (...) {
      error = std::current_exception();
    }
    work_ = nullptr;
    const std::lock_guard lock(mutex_);
    after_ = after;
    error_ = error;
    over_ = true;
    done_.notify_all();
  }

  bool test() override {
    const std::lock_guard lock(mutex_);
    if (over_ && error_) std::rethrow_exception(error_);
    return over_ && after_.done();
  }

  void wait() override {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return over_; });
    if (error_) std::rethrow_exception(error_);
    after_.wait();
  }

 private:
  std::function<Event()> work_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  Event after_;
  std::exception_ptr error_;
};

Worker::Worker()
    : thread_([this, select_device = device_of_this_thread()] {
        select_device();
        run();
      }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  given_.notify_one();
  thread_.join();
}

Event Worker::submit(std::function<Event()> work, Turn turn) {
  auto task = std::make_shared<Task>(std::move(work));
  {
    const std::lock_guard lock(mutex_);
    const auto later = [&](const Queued& other) { return other.turn.priority > turn.priority; };
    tasks_.insert(std::ranges::find_if(tasks_, later), {task, std::move(turn), next_++});
  }
  given_.notify_one();
  return Event(std::move(task));
}

// Waits for one event at a time, with the queue unlocked, and then looks again: another task may have come.
std::shared_ptr<Worker::Task> Worker::take(std::unique_lock<std::mutex>& lock) {
  while (true) {
    const auto ready =
        std::ranges::find_if(tasks_, [](const Queued& queued) { return has_happened(queued.turn.ready); });
    if (ready != tasks_.end()) {
      std::shared_ptr<Task> task = std::move(ready->task);
      tasks_.erase(ready);
      return task;
    }
    const Event next = std::ranges::min_element(tasks_, {}, &Queued::number)->turn.ready;  // given first
    lock.unlock();
    wait_for(next);
    lock.lock();
  }
}

void Worker::run() {
  while (true) {
    std::shared_ptr<Task> task;
    {
      std::unique_lock lock(mutex_);
      given_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = take(lock);
    }
    task->run();
  }
}

}  // namespace partita::internal
