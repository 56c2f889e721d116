#include "partita/monitor/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace partita::internal {
namespace {
using ::testing::HasSubstr;

TEST(EstimatedStepSeconds, DividesTheWorkByTheRate) {
  const RunInfo info{.ranks = 2, .tokens_per_step = 32768, .flops_per_token = 8e8, .peak_flops = 1e11};
  EXPECT_DOUBLE_EQ(estimated_step_seconds(info), 8e8 * 32768 / (0.5 * 2 * 1e11));
  EXPECT_EQ(estimated_step_seconds({.tokens_per_step = 32768, .flops_per_token = 8e8}), 0);  // no rate is known
}

TEST(IsOff, AsksForHalfAsMuchAgain) {
  EXPECT_FALSE(needs_correction(10, 14.9));
  EXPECT_TRUE(needs_correction(10, 15.1));
  EXPECT_FALSE(needs_correction(14.9, 10));
  EXPECT_TRUE(needs_correction(15.1, 10));
  EXPECT_FALSE(needs_correction(0.001, 0.4));  // nobody waits for that
}

TEST(RoughDuration, HasTwoFiguresAndAUnit) {
  EXPECT_EQ(rough_duration(0), "1 ms");
  EXPECT_EQ(rough_duration(0.025), "25 ms");
  EXPECT_EQ(rough_duration(0.4), "0.4 s");
  EXPECT_EQ(rough_duration(38), "38 s");
  EXPECT_EQ(rough_duration(720), "12 min");
  EXPECT_EQ(rough_duration(22800), "6.3 h");
  EXPECT_EQ(rough_duration(16 * 86400), "16 days");
  EXPECT_EQ(rough_duration(3 * 365.25 * 86400), "3.0 years");
  EXPECT_EQ(rough_duration(std::numeric_limits<double>::infinity()), "more than 1000 years");
}

TEST(PaceText, SaysModelTokensAndTime) {
  const RunInfo info{.tokens_per_step = 32768, .trained_parameters = 124'439'808};
  EXPECT_EQ(pace_text({.seconds = 38, .steps = 600}, info),
            "training 124.44M parameters on the CPU, 32.8k tokens per step: about 38 s per step, 6.3 h for 600 steps");
  EXPECT_THAT(pace_text({.seconds = 38, .steps = 1}, info), HasSubstr("38 s for 1 step"));
  EXPECT_EQ(corrected_pace_text(52, 597), "a step takes 52 s: 8.6 h for the remaining 597 steps");
}

TEST(PaceAdvice, NamesTheGpuThatIsThere) {
  EXPECT_THAT(pace_advice(true), HasSubstr("train.device=cuda"));
  EXPECT_THAT(pace_advice(false), HasSubstr("built without CUDA"));
  EXPECT_FALSE(exceeds_a_week(86400));
  EXPECT_TRUE(exceeds_a_week(30 * 86400));
}

}  // namespace
}  // namespace partita::internal
