#include "partita/train/save_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/train/checkpoint_saver.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SaveInterval, HasUnits) {
  EXPECT_EQ(save_interval(""), SaveInterval{});
  EXPECT_EQ(save_interval("90s").seconds, 90);
  EXPECT_EQ(save_interval("20min").seconds, 1200);
  EXPECT_EQ(save_interval("1.5h").seconds, 5400);
  EXPECT_TRUE(save_interval("auto").automatic);
  for (const char* text : {"20", "min", "-3s", "0s", "nans", "infh", "20 minutes", "s", "1e9h", "often"})
    EXPECT_THAT(error_message([&] { (void)save_interval(text); }),
                AllOf(HasSubstr("checkpoint.interval"), HasSubstr(text), HasSubstr("20min")));
}

// By hand: Tf = 50 700 h / 1024 = 178 242 s; 30 + sqrt(2 (178 242 + 600) 30 + 900) = 3306 s, and so on.
TEST(AutomaticInterval, FollowsYoungAndDaly) {
  EXPECT_NEAR(automatic_interval(1, 1024), 1 + 598.07, 0.1);
  EXPECT_NEAR(automatic_interval(1, 16384), 1 + 153.24, 0.1);
  EXPECT_EQ(automatic_interval(30, 1024), 1800);  // at most half an hour
  EXPECT_EQ(automatic_interval(1, 1), 1800);
  EXPECT_EQ(automatic_interval(200, 8), 4000);  // unless saves would take more than a twentieth of the time
  for (const double stall : {0.01, 0.3, 7.0})
    for (const int64_t ranks : {1, 8, 1000, 100'000}) {
      EXPECT_LE(automatic_interval(stall, 2 * ranks), automatic_interval(stall, ranks));
      EXPECT_GE(automatic_interval(2 * stall, ranks), automatic_interval(stall, ranks));
    }
}

TEST(SaveSchedule, IsDueBySteps) {
  const SaveSchedule schedule(3, {}, 1);
  EXPECT_FALSE(schedule.is_due(2));
  EXPECT_TRUE(schedule.is_due(3));
  EXPECT_FALSE(schedule.is_late(1e9));
  EXPECT_FALSE(SaveSchedule(0, {}, 1).is_due(3));
}

TEST(SaveSchedule, IsLateByTime) {
  const SaveSchedule schedule(0, {.seconds = 60}, 1);
  EXPECT_FALSE(schedule.is_late(59));
  EXPECT_TRUE(schedule.is_late(60));
  SaveSchedule automatic(0, {.automatic = true}, 16384);
  automatic.saved(1);
  EXPECT_FALSE(automatic.is_late(153));
  EXPECT_TRUE(automatic.is_late(155));
}

// The first failure is repeated after one step; then it is the next due checkpoint's turn, up to five in a row.
TEST(SaveSchedule, RepeatsAFailedSave) {
  SaveSchedule schedule(10, {}, 1);
  schedule.failed(10, "full");
  EXPECT_TRUE(schedule.is_due(11));
  EXPECT_TRUE(schedule.repeats());
  schedule.failed(11, "full");
  EXPECT_FALSE(schedule.repeats());
  for (int64_t step = 12; step < 20; ++step) EXPECT_FALSE(schedule.is_due(step)) << step;
  for (int64_t step = 20; step <= 40; step += 10) {
    EXPECT_TRUE(schedule.is_due(step));
    schedule.failed(step, "full");
    schedule.failed(step + 1, "full");
  }
  EXPECT_THAT(error_message([&] { schedule.failed(50, "the disk is full"); }),
              AllOf(HasSubstr("5 checkpoints in a row"), HasSubstr("step 50"), HasSubstr("the disk is full")));
}

TEST(SaveSchedule, ASuccessForgetsFailures) {
  SaveSchedule schedule(10, {}, 1);
  for (int64_t step = 10; step < 200; step += 10) {
    schedule.failed(step, "full");
    schedule.saved(0.1);
    EXPECT_FALSE(schedule.is_due(step + 1));
  }
}

TEST(BackgroundRule, TakesAtMostHalfOfTheFreeMemory) {
  EXPECT_TRUE(fits_in_background(Switch::automatic, 50, 100));
  EXPECT_FALSE(fits_in_background(Switch::automatic, 51, 100));
  EXPECT_TRUE(fits_in_background(Switch::on, 1000, 100));
  EXPECT_FALSE(fits_in_background(Switch::off, 1, 100));
}

TEST(WriterTurn, GroupsTheRanksOfAMachine) {
  for (const int rank : {0, 1, 7}) EXPECT_EQ(writer_turn(rank, 0), 0);
  EXPECT_EQ(writer_turn(3, 4), 0);
  EXPECT_EQ(writer_turn(4, 4), 1);
  EXPECT_EQ(writer_turn(7, 1), 7);
}

}  // namespace
}  // namespace partita::internal
