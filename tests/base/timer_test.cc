#include "partita/base/timer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace partita::internal {
namespace {

TEST(Timer, LapsLeaveNoGap) {
  using namespace std::chrono_literals;
  Timer whole, laps;
  double sum = 0;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(2ms);
    const double lap = laps.lap();
    EXPECT_GE(lap, 0.002);
    sum += lap;
  }
  EXPECT_LT(laps.seconds(), sum);
  EXPECT_NEAR(whole.seconds(), sum + laps.seconds(), 1e-3);
}

}  // namespace
}  // namespace partita::internal
