// Ordering of work. On CUDA, Stream and Event are a CUDA stream and event; on the CPU, work runs immediately and only
// collectives (and file I/O) complete later. Code that records and waits is the same for both.
#pragma once
#include <functional>
#include <memory>

namespace partita {

// State behind an Event: MPI or TCP requests, a CUDA event.
struct EventState {
  virtual ~EventState() = default;
  // Makes progress without blocking; true once done, when results may be read.
  virtual bool test() = 0;
  // Blocks until done, up to the collective's timeout. Error: names the collective and the missing ranks.
  virtual void wait() = 0;
};

// A point in a stream, or the end of a collective. A default-constructed Event has already happened. Copies share
// state.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}
  [[nodiscard]] bool done() const { return !state_ || state_->test(); }
  // Blocks the calling thread. Inside a step use Stream::wait, which on CUDA does not block the thread.
  void wait() const {
    if (state_) state_->wait();
  }
  // For streams that can wait for a specific kind of event without blocking; null: has happened.
  [[nodiscard]] const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

struct Stream {
  virtual ~Stream() = default;
  // An event for all work on this stream so far.
  [[nodiscard]] virtual Event record() = 0;
  // Orders later work of this stream after the event.
  virtual void wait(const Event&) = 0;
  // Runs `work` with its operations on this stream.
  virtual void run(const std::function<void()>& work) = 0;
};

// Work runs immediately in the calling thread: there is nothing to record, and waiting blocks.
class CpuStream final : public Stream {
 public:
  [[nodiscard]] Event record() override { return {}; }
  void wait(const Event& event) override { event.wait(); }
  void run(const std::function<void()>& work) override { work(); }
};

}  // namespace partita
