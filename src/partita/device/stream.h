// Order of work. On CUDA a Stream is a stream and an Event an event; on the CPU work runs at once and only collectives
// (and file I/O) finish later. Code that records and waits is the same on both.
#pragma once
#include <functional>
#include <memory>

namespace partita {

// What an Event waits for: MPI or TCP requests, a CUDA event.
struct EventState {
  virtual ~EventState() = default;
  // Moves the work on without blocking; true once it is done and its results may be read.
  virtual bool test() = 0;
  // Blocks until done, under the timeout that names the collective. Errors: Error with collective and missing ranks.
  virtual void wait() = 0;
};

// A moment in a stream, or the end of a collective. A default Event has already happened. Copies share the moment.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}
  [[nodiscard]] bool done() const { return !state_ || state_->test(); }
  // The calling thread waits. Inside a step use Stream::wait, which on CUDA does not block the thread.
  void wait() const {
    if (state_) state_->wait();
  }
  // For streams that know a kind of event and need not block for it; null: has happened.
  [[nodiscard]] const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

struct Stream {
  virtual ~Stream() = default;
  // Everything given to this stream so far.
  [[nodiscard]] virtual Event record() = 0;
  // Later work of this stream comes after the event.
  virtual void wait(const Event&) = 0;
  // Operations that `work` calls are given to this stream.
  virtual void run(const std::function<void()>& work) = 0;
};

// Work runs in the calling thread, at once: nothing to record, and waiting blocks.
class CpuStream final : public Stream {
 public:
  [[nodiscard]] Event record() override { return {}; }
  void wait(const Event& event) override { event.wait(); }
  void run(const std::function<void()>& work) override { work(); }
};

}  // namespace partita
