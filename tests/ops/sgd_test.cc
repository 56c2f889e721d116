#include "partita/ops/sgd.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

TEST(Sgd, StepsAreThoseOfTorch) {
  for (double momentum : {0.0, 0.9})
    for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf})
      for (int64_t n : {0, 1, 15, 17, 40'001}) {
        SCOPED_TRACE(::testing::Message() << "momentum " << momentum << " " << at::toString(dtype) << " " << n);
        const at::Tensor master = random({n}, at::kFloat, 1), buffer = at::full({n}, 0, at::TensorOptions(at::kFloat));
        const at::Tensor weight = dtype == at::kFloat ? master : nan({n}, dtype);
        Values w = values(master), b(w.size());
        for (uint64_t step = 0; step < 4; ++step) {
          const at::Tensor gradient = random({n}, at::kFloat, 10 + step);
          const Values g = values(gradient);
          for (size_t i = 0; i < w.size(); ++i) {
            const double decayed = 0.5 * g[i] + 0.1 * w[i];
            b[i] = step == 0 ? decayed : momentum * b[i] + decayed;  // torch's first step copies the gradient
            w[i] -= static_cast<double>(0.05F) * b[i];
          }
          const StepScalars now{.learning_rate = 0.05F, .gradient_scale = 0.5F};
          sgd_step(master, momentum > 0 ? buffer : at::Tensor(), gradient, weight,
                   {.momentum = momentum, .weight_decay = 0.1}, &now);
        }
        expect_close(master, w, 1e-6);
        if (momentum > 0) expect_close(buffer, b, 1e-6);
        EXPECT_TRUE(same_bits(weight, master.to(dtype)));
      }
}

TEST(Sgd, SkipChangesNothing) {
  const at::Tensor master = random({100}, at::kFloat, 1), buffer = random({100}, at::kFloat, 2);
  const at::Tensor gradient = at::full({100}, std::numeric_limits<double>::infinity(), at::TensorOptions(at::kFloat));
  const StepScalars now{.learning_rate = 1, .skip = 1};
  sgd_step(master, buffer, gradient, {}, {}, &now);
  EXPECT_TRUE(same_bits(master, random({100}, at::kFloat, 1)) && same_bits(buffer, random({100}, at::kFloat, 2)));
}

TEST(Sgd, WrongOperandsAreNamed) {
  const at::Tensor master = nan({4}), gradient = nan({4}), half = nan({4}, at::kBFloat16);
  const StepScalars now;
  const auto error = [&](const at::Tensor& w, const at::Tensor& b, const at::Tensor& weight, const char* message) {
    EXPECT_THAT([&] { sgd_step(w, b, gradient, weight, {}, &now); },
                ::testing::ThrowsMessage<Error>(::testing::HasSubstr(message)));
  };
  error(master, {}, {}, "momentum 0.9 without a state");
  error(master, half, {}, "momentum: dtype BFloat16, expected Float");
  error(half, nan({4}, at::kBFloat16), nan({4}, at::kBFloat16),
        "weight: dtype BFloat16 with master weights in BFloat16, expected the master itself");
  error(master, nan({4}), nan({4}, at::kDouble), "expected bf16, fp16 or the master itself");
  error(nan({4}, at::kHalf), nan({4}, at::kHalf), {}, "master: dtype Half, expected fp32 or bf16");
}

}  // namespace
}  // namespace partita::internal
