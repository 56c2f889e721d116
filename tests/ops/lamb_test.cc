#include "partita/ops/lamb.h"

#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

constexpr Lamb kLamb{.beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1};

struct State {
  at::Tensor master, m, v, gradient;
};

State state_of(int64_t n, at::ScalarType dtype = at::kFloat) {
  return {random({n}, dtype, 1), random({n}, dtype, 2, 0, 0.1), random({n}, dtype, 3, 0, 0.1).abs(),
          random({n}, at::kFloat, 4)};
}

double squares(const Values& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return sum;
}

TEST(Lamb, MeasuresWhatItWillDoAndDoesIt) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (int64_t n : {0, 1, 15, 1025, 70'001})
      for (int64_t update : {0, 5, 100'000}) {
        SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << n << " elements, update " << update);
        const State s = state_of(n, dtype);
        Values w = values(s.master), m = values(s.m), v = values(s.v), u(w.size());
        const Values gradient = values(s.gradient);
        for (size_t i = 0; i < w.size(); ++i) {
          const double g = gradient[i] * 0.25, t = static_cast<double>(update) + 1;
          m[i] = 0.8 * m[i] + 0.2 * g;
          v[i] = 0.99 * v[i] + 0.01 * g * g;
          u[i] = m[i] / (1 - std::pow(0.8, t)) / (std::sqrt(v[i] / (1 - std::pow(0.99, t))) + 1e-6) + 0.1 * w[i];
        }
        const StepScalars now{.step = 3, .update = update, .learning_rate = 0.01F, .gradient_scale = 0.25F};
        const SquaredNorms norms = lamb_measure(s.master, s.m, s.v, s.gradient, kLamb, &now);
        EXPECT_NEAR(norms.weight, squares(w), 1e-12 * squares(w));
        EXPECT_NEAR(norms.update, squares(u), 2e-6 * squares(u));
        const State before = state_of(n, dtype);
        EXPECT_TRUE(same_bits(s.master, before.master) && same_bits(s.m, before.m) && same_bits(s.v, before.v));

        const double ratio = lamb_ratio(norms);
        EXPECT_NEAR(ratio, n == 0 ? 1 : std::sqrt(squares(w) / squares(u)), 1e-5 * ratio);
        for (size_t i = 0; i < w.size(); ++i) w[i] -= static_cast<double>(0.01F) * ratio * u[i];
        lamb_step(s.master, s.m, s.v, s.gradient, {}, kLamb, ratio, &now);
        expect_close(s.master, w, dtype == at::kFloat ? 1e-6 : 1.0 / 128);
        expect_close(s.m, m, dtype == at::kFloat ? 1e-6 : 1.0 / 128);
        expect_close(s.v, v, dtype == at::kFloat ? 1e-6 : 1.0 / 128);
      }
}

TEST(Lamb, TheRatioIsOneWithoutWeightsOrUpdate) {
  EXPECT_EQ(lamb_ratio({.weight = 0, .update = 4}), 1);
  EXPECT_EQ(lamb_ratio({.weight = 4, .update = 0}), 1);
  EXPECT_EQ(lamb_ratio({.weight = 4, .update = 1}), 2);
}

TEST(Lamb, TheMeasureDoesNotDependOnThreads) {
  const State s = state_of(100'003);
  const StepScalars now{.learning_rate = 0.01F};
  const auto run = [&] { return lamb_measure(s.master, s.m, s.v, s.gradient, kLamb, &now); };
  const SquaredNorms one = with_threads(1, run), two = with_threads(2, run);
  EXPECT_EQ(one.weight, two.weight);
  EXPECT_EQ(one.update, two.update);
}

TEST(Lamb, SkipMeasuresAndChangesNothing) {
  const State s = state_of(100), before = state_of(100);
  s.gradient.fill_(std::numeric_limits<double>::infinity());
  const StepScalars now{.learning_rate = 1, .skip = 1};
  const SquaredNorms norms = lamb_measure(s.master, s.m, s.v, s.gradient, kLamb, &now);
  EXPECT_EQ(norms.weight, 0);
  EXPECT_EQ(norms.update, 0);
  lamb_step(s.master, s.m, s.v, s.gradient, {}, kLamb, 1, &now);
  EXPECT_TRUE(same_bits(s.master, before.master) && same_bits(s.m, before.m) && same_bits(s.v, before.v));
}

TEST(Lamb, HalfWeightsAreTheRoundedMaster) {
  for (at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const State s = state_of(1003);
    const at::Tensor weight = nan({1003}, dtype);
    const StepScalars now{.learning_rate = 0.01F};
    lamb_step(s.master, s.m, s.v, s.gradient, weight, kLamb, 0.5, &now);
    EXPECT_TRUE(same_bits(weight, s.master.to(dtype)));
  }
}

}  // namespace
}  // namespace partita::internal
