// Measures wall-clock time.
//
//   Timer timer;
//   work();
//   double seconds = timer.seconds();   // since construction or the last lap()
#pragma once
#include <chrono>
#include <utility>

namespace partita::internal {

class Timer {
 public:
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // Seconds since the last lap; restarts the timer, so that laps have no gaps.
  double lap() {
    const Clock::time_point now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(start_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;  // monotonic
  Clock::time_point start_ = Clock::now();
};

}  // namespace partita::internal
