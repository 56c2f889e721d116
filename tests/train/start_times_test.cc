#include "partita/train/start_times.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(StartTimes, AddsUpInOrder) {
  StartTimes times;
  EXPECT_EQ(times.text(), "first step after 0.00 s: ");
  times.add("program and ranks", 1.25);
  times.add("data", 0);
  times.add("first step", 2.5);
  EXPECT_EQ(times.text(), "first step after 3.75 s: program and ranks 1.25, data 0.00, first step 2.50");
}

}  // namespace
}  // namespace partita::internal
