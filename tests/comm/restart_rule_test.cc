#include "partita/comm/restart_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace partita::internal {
namespace {

using testing::HasSubstr;

const StartEnd kKilledAtOnce{.killed = true};

RestartDecision decide(const std::vector<StartEnd>& ends, int64_t most = 100, bool reports_steps = true) {
  return decide_restart(ends, most, reports_steps);
}

StartEnd killed(int64_t steps) { return {.killed = true, .steps = steps}; }
StartEnd failed(int64_t steps) { return {.killed = false, .steps = steps}; }

TEST(RestartRule, OnlyIfAskedFor) {
  EXPECT_FALSE(decide({killed(5)}, 0).restarts);
  EXPECT_EQ(decide({killed(5)}, 0).reason, "");
  EXPECT_TRUE(decide({killed(5)}, 1).restarts);
}

TEST(RestartRule, AtMostSoManyTimes) {
  std::vector<StartEnd> ends;
  for (int64_t start = 1; start <= 3; ++start) {
    ends.push_back(killed(10 * start));
    EXPECT_TRUE(decide(ends, 3).restarts) << start;
  }
  ends.push_back(killed(40));
  EXPECT_FALSE(decide(ends, 3).restarts);
  EXPECT_EQ(decide(ends, 3).reason, "all 3 restarts were made");
  EXPECT_EQ(decide({killed(1), killed(2)}, 1).reason, "the only restart was made");
}

// Such as a key that does not exist.
TEST(RestartRule, NotAfterAnErrorBeforeTheFirstStep) {
  EXPECT_FALSE(decide({failed(0)}).restarts);
  EXPECT_THAT(decide({failed(0)}).reason, HasSubstr("no step was complete"));
  EXPECT_FALSE(decide({kKilledAtOnce, failed(0)}).restarts);
  EXPECT_TRUE(decide({failed(1)}).restarts);
  EXPECT_TRUE(decide({killed(7), failed(7)}).restarts) << "an error of a later start may pass";
  EXPECT_TRUE(decide({kKilledAtOnce}).restarts);
}

TEST(RestartRule, NotWithoutProgress) {
  EXPECT_TRUE(decide({failed(57), failed(57)}).restarts);
  EXPECT_FALSE(decide({failed(57), failed(57), failed(57)}).restarts);
  EXPECT_THAT(decide({failed(57), failed(57), failed(57)}).reason, HasSubstr("no progress"));
  EXPECT_TRUE(decide({failed(57), failed(57), failed(58)}).restarts);
  EXPECT_TRUE(decide({failed(57), failed(58), failed(58)}).restarts);
  EXPECT_FALSE(decide({failed(20), failed(57), failed(57), failed(57)}).restarts);
  EXPECT_FALSE(decide({kKilledAtOnce, kKilledAtOnce, kKilledAtOnce}).restarts);
}

// A program that does not report its steps is bounded by the number of restarts alone.
TEST(RestartRule, OfUnknownSteps) {
  EXPECT_TRUE(decide({kKilledAtOnce, kKilledAtOnce, kKilledAtOnce}, 3, false).restarts);
  EXPECT_FALSE(decide({kKilledAtOnce, kKilledAtOnce, kKilledAtOnce, kKilledAtOnce}, 3, false).restarts);
  EXPECT_FALSE(decide({failed(0)}, 3, false).restarts);
  EXPECT_FALSE(decide({killed(5), killed(5), killed(5)}, 9, false).restarts) << "but this one did report them";
}

}  // namespace
}  // namespace partita::internal
