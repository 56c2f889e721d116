// When a run saves: every so many steps, after so much time, and again after a save has failed. Pure: time and results
// are given.
//
//   SaveSchedule schedule(config.checkpoint.every, save_interval(config.checkpoint.interval), ranks);
//   if (schedule.is_due(step) || (someone says schedule.is_late(seconds_since_last))) ... save ...
//   schedule.saved(stall_seconds);   or   schedule.failed(step, message);
#pragma once
#include <cstdint>
#include <string>

#include "partita/config/save_interval.h"

namespace partita::internal {

// Seconds between checkpoints by which a run loses least time to saves and to repeated work, if each of `ranks` devices
// fails once in 50 700 hours on average (Llama 3 405B: 419 unexpected interruptions of 16 384 GPUs in 54 days), a save
// stops training for `stall` seconds, and a restart takes ten minutes: stall + sqrt(2 (Tf + Tr) stall + stall^2)
// (Young and Daly, with the time of recovery of arXiv 2410.18124). At most half an hour, since preemption and people's
// patience are not in the formula, and at least 20 times the stall.
[[nodiscard]] double automatic_interval(double stall, int64_t ranks);

class SaveSchedule {
 public:
  // When so many due saves in a row have failed, a run ends. All but the last were repeated once.
  static constexpr int kMostFailures = 5;

  // every: steps, 0: none.
  SaveSchedule(int64_t every, SaveInterval interval, int64_t ranks)
      : every_(every), interval_(interval), ranks_(ranks) {}

  // By the number of steps done, or because the last save has failed. The same on all ranks.
  [[nodiscard]] bool is_due(int64_t step) const { return step == retry_ || (every_ > 0 && step % every_ == 0); }
  // By the time since the last save began, or since the run did.
  [[nodiscard]] bool is_late(double seconds) const;

  // A save begins: of what has failed this is the repetition.
  void begun(int64_t step) {
    if (retry_ > step) retry_ = step;
  }
  // stall: seconds that training was stopped for it.
  void saved(double stall);
  // A save that began at this step, or an earlier one, has failed. The first failure is repeated after the next step;
  // later ones when the next checkpoint is due. Error: too many in a row; `message` is that of the last.
  void failed(int64_t step, const std::string& message);
  [[nodiscard]] bool repeats() const { return retry_ >= 0; }

 private:
  int64_t every_;
  SaveInterval interval_;
  int64_t ranks_;
  double stall_ = 10;  // until it is known
  int failures_ = 0;   // in a row, without repetitions
  int64_t retry_ = -1;
};

}  // namespace partita::internal
