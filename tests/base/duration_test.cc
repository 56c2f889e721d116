#include "partita/base/duration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace partita::internal {
namespace {

TEST(HumanDuration, GrowsWithTheTime) {
  EXPECT_EQ(human_duration(0), "0:00");
  EXPECT_EQ(human_duration(7.4), "0:07");
  EXPECT_EQ(human_duration(59.6), "1:00");
  EXPECT_EQ(human_duration(754), "12:34");
  EXPECT_EQ(human_duration(3600 * 3 + 121), "3:02:01");
  EXPECT_EQ(human_duration(86400 * 2 + 3600 * 3 + 120), "2d 03:02");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(human_duration(std::nan("")), "?");
}

}  // namespace
}  // namespace partita::internal
