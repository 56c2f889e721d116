#include "partita/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

const std::vector<ScheduleKind> kKinds = {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::constant,
                                          ScheduleKind::inverse_square_root, ScheduleKind::warmup_stable_decay};
const std::vector<WsdStyle> kStyles = {WsdStyle::exponential, WsdStyle::linear, WsdStyle::cosine,
                                       WsdStyle::one_minus_sqrt};

Schedule schedule(ScheduleKind kind, WsdStyle style = WsdStyle::linear) {
  return {.kind = kind, .max = 1.0, .min = 0.1, .warmup = 10, .length = 110, .wsd_decay = 40, .wsd_style = style};
}

TEST(Schedule, WarmsUpFromTheFirstStepToTheHighestRate) {
  for (const ScheduleKind kind : kKinds) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 1), 0.1);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 5), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 10), 1.0);
  }
}

TEST(Schedule, FirstStepIsNeverZeroNorTheLastBelowTheLowestRate) {
  for (const ScheduleKind kind : kKinds) {
    Schedule s = schedule(kind);
    s.min = 0;
    EXPECT_GT(learning_rate(s, 1), 0);
    s.warmup = 0;
    EXPECT_GT(learning_rate(s, 1), 0.9);
  }
}

TEST(Schedule, CosineFallsInHalfAWave) {
  const Schedule s = schedule(ScheduleKind::cosine);
  EXPECT_NEAR(learning_rate(s, 35), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-15);  // r = 1/4
  EXPECT_NEAR(learning_rate(s, 60), 0.55, 1e-15);                                  // half way
  EXPECT_NEAR(learning_rate(s, 110), 0.1, 1e-15);
  EXPECT_NEAR(learning_rate(s, 1000), 0.1, 1e-15);
}

TEST(Schedule, LinearFallsStraight) {
  const Schedule s = schedule(ScheduleKind::linear);
  EXPECT_NEAR(learning_rate(s, 35), 0.775, 1e-15);
  EXPECT_NEAR(learning_rate(s, 60), 0.55, 1e-15);
  EXPECT_NEAR(learning_rate(s, 110), 0.1, 1e-15);
  EXPECT_NEAR(learning_rate(s, 111), 0.1, 1e-15);
}

TEST(Schedule, ConstantStays) {
  const Schedule s = schedule(ScheduleKind::constant);
  for (const int64_t n : {10, 11, 110, 111, 100000}) EXPECT_EQ(learning_rate(s, n), 1.0);
}

TEST(Schedule, InverseSquareRootFallsToTheLowestRate) {
  const Schedule s = schedule(ScheduleKind::inverse_square_root);
  EXPECT_NEAR(learning_rate(s, 40), 0.5, 1e-15);
  EXPECT_NEAR(learning_rate(s, 160), 0.25, 1e-15);
  EXPECT_NEAR(learning_rate(s, 999), std::sqrt(10.0 / 999), 1e-15);
  EXPECT_EQ(learning_rate(s, 2000), 0.1);
  Schedule cold = s;
  cold.warmup = 0;
  EXPECT_NEAR(learning_rate(cold, 1), 1.0, 1e-15);
  EXPECT_NEAR(learning_rate(cold, 4), 0.5, 1e-15);
}

TEST(Schedule, WarmupStableDecayStaysThenFallsByItsStyle) {
  const auto at = [](WsdStyle style, int64_t n) {
    return learning_rate(schedule(ScheduleKind::warmup_stable_decay, style), n);
  };
  for (const WsdStyle style : kStyles) {
    EXPECT_EQ(at(style, 11), 1.0);
    EXPECT_EQ(at(style, 70), 1.0);  // the last before the fall
    EXPECT_LT(at(style, 71), 1.0);
    EXPECT_NEAR(at(style, 110), 0.1, 1e-15);
    EXPECT_NEAR(at(style, 500), 0.1, 1e-15);
  }
  // A quarter of the fall.
  EXPECT_NEAR(at(WsdStyle::exponential, 80), 0.1 + 0.9 * (2 * std::pow(0.5, 0.25) - 1), 1e-15);
  EXPECT_NEAR(at(WsdStyle::linear, 80), 0.775, 1e-15);
  EXPECT_NEAR(at(WsdStyle::cosine, 80), 0.1 + 0.9 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(at(WsdStyle::one_minus_sqrt, 80), 0.55, 1e-15);
}

// For random lengths: rates lie between the lowest and the highest (the warmup below the lowest excepted), never rise
// after the warmup, and a step changes the rate by little where the schedule is long.
TEST(Schedule, IsMonotoneBoundedAndContinuous) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    Schedule s{.kind = kKinds[random() % kKinds.size()],
               .max = 1e-3,
               .min = 1e-5 * static_cast<double>(random() % 100),
               .warmup = static_cast<int64_t>(random() % 300),
               .wsd_style = kStyles[random() % kStyles.size()]};
    s.length = s.warmup + static_cast<int64_t>(random() % 3000);
    s.wsd_decay = static_cast<int64_t>(random() % static_cast<uint64_t>(s.length - s.warmup + 1));
    double before = 0;
    for (int64_t n = 1; n <= s.length + 3; ++n) {
      const double rate = learning_rate(s, n);
      const std::string where = "kind " + std::to_string(static_cast<int>(s.kind)) + " step " + std::to_string(n);
      ASSERT_TRUE(rate > 0 || s.min == 0) << where;
      ASSERT_LE(rate, s.max) << where;
      if (n <= s.warmup) {
        ASSERT_GT(rate, before) << where;
      } else {
        ASSERT_GE(rate, s.min * (1 - 1e-12)) << where;
        ASSERT_LE(rate, n == 1 ? s.max : before * (1 + 1e-12)) << where;
      }
      before = rate;
    }
    if (s.kind == ScheduleKind::cosine || s.kind == ScheduleKind::linear) {
      EXPECT_NEAR(learning_rate(s, s.length + 1), s.min, 1e-18);
    }
  }
}

TEST(Schedule, NeighbouringStepsOfALongRunDifferLittle) {
  for (const ScheduleKind kind : kKinds) {
    for (const WsdStyle style : kStyles) {
      Schedule s = schedule(kind, style);
      s.warmup = 10'000, s.length = 110'000, s.wsd_decay = 40'000;
      double before = learning_rate(s, 1);
      for (int64_t n = 2; n < 120'000; ++n) {
        const double rate = learning_rate(s, n);
        // 1 - sqrt(r) alone starts with a steep step: sqrt(1 / 40000).
        ASSERT_LT(std::abs(rate - before), style == WsdStyle::one_minus_sqrt ? 6e-3 : 2e-4) << n;
        before = rate;
      }
    }
  }
}

TEST(Schedule, TakesRunsWithoutAnyRoomForADecay) {
  for (const ScheduleKind kind : kKinds) {
    const Schedule s{.kind = kind, .max = 1.0, .min = 0.1, .warmup = 5, .length = 5};
    EXPECT_DOUBLE_EQ(learning_rate(s, 4), 0.8);
    EXPECT_DOUBLE_EQ(learning_rate(s, 5), 1.0);
  }
  const Schedule none{.kind = ScheduleKind::warmup_stable_decay, .max = 1.0, .min = 0.1, .length = 4};
  EXPECT_EQ(learning_rate(none, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(none, 5), 0.1);
}

TEST(Schedule, StepsCountFromOne) { EXPECT_THROW((void)learning_rate(schedule(ScheduleKind::cosine), 0), Error); }

}  // namespace
}  // namespace partita::internal
