#include "partita/ops/adamw.h"

#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

struct State {
  at::Tensor master, m, v, gradient, weight;
};

State state_of(int64_t n, at::ScalarType dtype) {
  State s{random({n}, at::kFloat, 1),
          random({n}, at::kFloat, 2, 0, 0.1),
          random({n}, at::kFloat, 3, 0, 0.1).abs(),
          random({n}, at::kFloat, 4),
          {}};
  s.weight = dtype == at::kFloat ? s.master : nan({n}, dtype);
  return s;
}

constexpr AdamW kAdamW{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

TEST(AdamW, StepIsTheFormula) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (int64_t n : {0, 1, 15, 17, 1000, 40001})
      for (int64_t step : {0, 1, 100000}) {
        SCOPED_TRACE(::testing::Message() << at::toString(dtype) << " " << n << " elements, step " << step);
        const State s = state_of(n, dtype);
        Values master = values(s.master), m = values(s.m), v = values(s.v);
        const Values gradient = values(s.gradient);
        const double b1 = kAdamW.beta1, b2 = kAdamW.beta2, lr = 1e-2F;
        for (size_t i = 0; i < master.size(); ++i) {
          const double g = gradient[i] * 0.25;
          m[i] = b1 * m[i] + (1 - b1) * g;
          v[i] = b2 * v[i] + (1 - b2) * g * g;
          const double m_hat = m[i] / (1 - std::pow(b1, static_cast<double>(step + 1)));
          const double v_hat = v[i] / (1 - std::pow(b2, static_cast<double>(step + 1)));
          master[i] -= lr * (kAdamW.weight_decay * master[i] + m_hat / (std::sqrt(v_hat) + kAdamW.epsilon));
        }
        const StepScalars now{.step = 7, .update = step, .learning_rate = 1e-2F, .gradient_scale = 0.25F};
        adamw_step(s.master, s.m, s.v, s.gradient, s.weight, kAdamW, &now);
        expect_close(s.master, master, 1e-6);
        expect_close(s.m, m, 1e-6);
        expect_close(s.v, v, 1e-6);
        EXPECT_TRUE(same_bits(s.weight, s.master.to(dtype)));
      }
}

// As if the gradient had been widened before.
TEST(AdamW, GradientsMayBeHalfPrecision) {
  for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (at::ScalarType narrow : {at::kBFloat16, at::kHalf})
      for (int64_t n : {1, 17, 40001}) {
        State s = state_of(n, dtype), wide = state_of(n, dtype);
        s.gradient = s.gradient.to(narrow);
        wide.gradient = s.gradient.to(at::kFloat);
        const StepScalars now{.update = 3, .learning_rate = 1e-2F, .gradient_scale = 0.25F};
        for (const State& each : {s, wide})
          adamw_step(each.master, each.m, each.v, each.gradient, each.weight, kAdamW, &now);
        EXPECT_TRUE(same_bits(s.master, wide.master) && same_bits(s.m, wide.m) && same_bits(s.v, wide.v) &&
                    same_bits(s.weight, wide.weight))
            << at::toString(dtype) << ", gradient " << at::toString(narrow) << ", " << n << " elements";
      }
}

TEST(AdamW, SkipChangesNothing) {
  const State s = state_of(100, at::kBFloat16), before = state_of(100, at::kBFloat16);
  s.gradient.fill_(std::numeric_limits<double>::infinity());
  s.weight.fill_(3);
  const StepScalars now{.learning_rate = 1, .skip = 1};
  adamw_step(s.master, s.m, s.v, s.gradient, s.weight, kAdamW, &now);
  EXPECT_TRUE(same_bits(s.master, before.master) && same_bits(s.m, before.m) && same_bits(s.v, before.v));
  EXPECT_EQ(values(s.weight), Values(100, 3.0));
}

TEST(AdamW, AnyCutAndAnyNumberOfThreadsGiveTheSameBits) {
  const StepScalars now{.update = 3, .learning_rate = 1e-2F};
  const auto run = [&](int64_t cut) {
    const State s = state_of(50021, at::kBFloat16);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, cut}, {cut, 50021}}) {
      const auto part = [first = begin, last = end](const at::Tensor& t) { return t.slice(0, first, last); };
      adamw_step(part(s.master), part(s.m), part(s.v), part(s.gradient), part(s.weight), kAdamW, &now);
    }
    return s.master;
  };
  const at::Tensor whole = with_threads(1, [&] { return run(0); });
  for (int64_t cut : {1, 7, 33333})
    EXPECT_TRUE(same_bits(whole, with_threads(2, [&, at = cut] { return run(at); }))) << cut;
}

}  // namespace
}  // namespace partita::internal
