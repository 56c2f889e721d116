#include "partita/train/save_schedule.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"

namespace partita::internal {

double automatic_interval(double stall, int64_t ranks) {
  constexpr double kHoursToFailure = 50'700, kRecovery = 600, kMost = 1800, kLeastStalls = 20;
  const double failure = kHoursToFailure * 3600 / static_cast<double>(std::max<int64_t>(ranks, 1));
  const double best = stall + std::sqrt(2 * (failure + kRecovery) * stall + stall * stall);
  return std::max(std::min(best, kMost), kLeastStalls * stall);
}

bool SaveSchedule::is_late(double seconds) const {
  const double most = interval_.automatic ? automatic_interval(stall_, ranks_) : interval_.seconds;
  return most > 0 && seconds >= most;
}

void SaveSchedule::saved(double stall) {
  stall_ = stall;
  failures_ = 0;
  retry_ = -1;
}

void SaveSchedule::failed(int64_t step, const std::string& message) {
  if (retry_ >= 0) {  // this was the repetition
    retry_ = -1;
    return;
  }
  if (++failures_ >= kMostFailures)
    fail("{} checkpoints in a row could not be saved, up to step {}; older ones are unchanged. The last error: {}",
         failures_, step, message);
  retry_ = step + 1;
}

}  // namespace partita::internal
