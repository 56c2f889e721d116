#include "partita/monitor/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace partita::internal {
namespace {
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Progress third() { return {.step = 300, .steps = 1000, .seconds = 60, .loss = 4.2, .tokens_per_second = 15'000}; }

TEST(Progress, PredictsTheRestFromItsOwnPace) {
  EXPECT_DOUBLE_EQ(third().seconds_left(), 140);
  Progress resumed = third();
  resumed.first_step = 200;  // 100 steps took the 60 seconds
  EXPECT_DOUBLE_EQ(resumed.seconds_left(), 420);
  EXPECT_LT((Progress{.steps = 10}).seconds_left(), 0);
  EXPECT_EQ((Progress{.step = 10, .steps = 10, .seconds = 5}).seconds_left(), 0);
}

TEST(ProgressBar, FillsTheWidthItIsGiven) {
  const std::string bar = progress_bar(third(), 79);
  EXPECT_EQ(bar.size(), 79U);
  EXPECT_THAT(bar, StartsWith(" 30% [#"));
  EXPECT_THAT(bar, EndsWith(".] 300/1000  loss 4.200  15.0k tok/s  ETA 2:20"));
  const auto filled = std::count(bar.begin(), bar.end(), '#'), open = std::count(bar.begin(), bar.end(), '.') - 2;
  EXPECT_EQ(filled, (filled + open) * 3 / 10);
}

TEST(ProgressBar, IsNeverWiderThanTheTerminal) {
  for (int width = 0; width < 200; ++width) {
    EXPECT_LE(progress_bar(third(), width).size(), static_cast<size_t>(width));
  }
  EXPECT_EQ(progress_bar(third(), 55), " 30% 300/1000  loss 4.200  15.0k tok/s  ETA 2:20");  // no room for a bar
}

// Figures go one after the other, none of them cut.
TEST(ProgressBar, KeepsWholeFiguresOnANarrowTerminal) {
  EXPECT_EQ(progress_bar(third(), 48), " 30% 300/1000  loss 4.200  15.0k tok/s  ETA 2:20");
  EXPECT_EQ(progress_bar(third(), 47), " 30% 300/1000  loss 4.200  ETA 2:20");
  EXPECT_EQ(progress_bar(third(), 30), " 30% loss 4.200  ETA 2:20");
  EXPECT_EQ(progress_bar(third(), 20), " 30% ETA 2:20");
  EXPECT_EQ(progress_bar(third(), 12), " 30%");
  EXPECT_EQ(progress_bar(third(), 3), "");
}

TEST(ProgressBar, BeginsEmptyAndEndsFull) {
  Progress p = third();
  p.step = 0;
  EXPECT_THAT(progress_bar(p, 100), StartsWith("  0% [...."));
  EXPECT_THAT(progress_bar(p, 100), EndsWith("ETA ?"));
  p.step = 1000;
  EXPECT_THAT(progress_bar(p, 100), StartsWith("100% [####"));
  EXPECT_THAT(progress_bar(p, 100), ::testing::Not(HasSubstr("#.")));
  EXPECT_THAT(progress_bar({}, 80), StartsWith("  0% "));
}

TEST(ProgressText, SaysTheSameInWords) {
  EXPECT_EQ(progress_text(third()), "step 300 of 1000 (30%), loss 4.200, 15.0k tok/s, ETA 2:20");
  Progress p = third();
  p.loss = std::nan("");
  EXPECT_THAT(progress_text(p), HasSubstr("loss nan"));
}

TEST(Progress, LeavesOutTokensWhereThereAreNone) {
  Progress p = third();
  p.tokens_per_second = 0;
  EXPECT_EQ(progress_text(p), "step 300 of 1000 (30%), loss 4.200, ETA 2:20");
  EXPECT_THAT(progress_bar(p, 100), EndsWith(".] 300/1000  loss 4.200  ETA 2:20"));
}

TEST(HumanCount, KeepsThreeFiguresOrSo) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(999.9), "1.0k");
  EXPECT_EQ(human_count(15'040), "15.0k");
  EXPECT_EQ(human_count(999'990), "1.00M");
  EXPECT_EQ(human_count(3.25e6), "3.25M");
  EXPECT_EQ(human_count(1.2e9), "1.20G");
}

}  // namespace
}  // namespace partita::internal
