// Stochastic rounding in the optimizers' kernels.
#include "partita/ops/rounding.h"

#include <functional>

#include "partita/base/random.h"
#include "partita/ops/adamw.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using namespace reference;

// master, then the states.
using Tensors = std::vector<at::Tensor>;
using Step = std::function<void(const Tensors&, const at::Tensor& gradient, const StepScalars&, const Rounding&)>;

struct Kind {
  const char* name;
  size_t states;
  Step step;
};

const Kind kKinds[] = {
    {"adamw", 2,
     [](const Tensors& t, const at::Tensor& g, const StepScalars& now, const Rounding& r) {
       adamw_step(t[0], t[1], t[2], g, t[0], {.weight_decay = 0.1}, &now, r);
     }},
    {"sgd", 1,
     [](const Tensors& t, const at::Tensor& g, const StepScalars& now, const Rounding& r) {
       sgd_step(t[0], t[1], g, t[0], {.weight_decay = 0.1}, &now, r);
     }},
    {"sgd without momentum", 0,
     [](const Tensors& t, const at::Tensor& g, const StepScalars& now, const Rounding& r) {
       sgd_step(t[0], {}, g, t[0], {.momentum = 0}, &now, r);
     }},
    {"lamb", 2, [](const Tensors& t, const at::Tensor& g, const StepScalars& now, const Rounding& r) {
       lamb_step(t[0], t[1], t[2], g, {}, {.weight_decay = 0.1}, 0.7, &now, r);
     }}};

// Of whole fp32 tensors, as base/random.h and ops/rounding.h say.
at::Tensor rounded(const at::Tensor& wide, uint32_t tensor, const StepScalars& now, const Rounding& rounding) {
  at::Tensor out = at::empty(wide.sizes(), at::TensorOptions(at::kBFloat16));
  const PhiloxKey key = rounding_key(now.seed, rounding.parameter);
  for (int64_t i = 0; i < wide.numel(); ++i) {
    const int64_t element = rounding.first + i;
    uint32_t bits = 0;
    std::memcpy(&bits, wide.const_data_ptr<float>() + i, sizeof(bits));
    bits += random16(rounding_block(key, now.step, tensor, element / 8), element);
    out.mutable_data_ptr<at::BFloat16>()[i] =
        at::BFloat16(static_cast<uint16_t>(bits >> 16), at::BFloat16::from_bits());
  }
  return out;
}

TEST(StochasticRounding, IsThatOfTheFp32ResultWithTheBitsOfEachElement) {
  for (const Kind& kind : kKinds)
    for (int64_t n : {0, 1, 7, 16, 511, 513, 40'001})
      for (int64_t first : {int64_t{0}, int64_t{3}, int64_t{128}, (int64_t{1} << 33) + 5}) {
        SCOPED_TRACE(::testing::Message() << kind.name << " " << n << " from " << first);
        Tensors half, wide;
        for (size_t t = 0; t <= kind.states; ++t) {
          half.push_back(random({n}, at::kBFloat16, t).abs());
          wide.push_back(half.back().to(at::kFloat));
        }
        const at::Tensor gradient = random({n}, at::kFloat, 9);
        const StepScalars now{.seed = 11, .step = (int64_t{1} << 35) + 2, .update = 4, .learning_rate = 0.01F};
        const Rounding rounding{.parameter = hash_of("layers.0.mlp.up.weight"), .first = first};
        kind.step(half, gradient, now, rounding);
        kind.step(wide, gradient, now, {});
        for (size_t t = 0; t < half.size(); ++t)
          EXPECT_TRUE(same_bits(half[t], rounded(wide[t], static_cast<uint32_t>(t), now, rounding))) << "tensor " << t;
      }
}

TEST(StochasticRounding, DoesNotDependOnCutsAndThreads) {
  constexpr int64_t kCount = 50'021;
  const StepScalars now{.seed = 1, .step = 2, .learning_rate = 0.01F};
  const auto run = [&](const Kind& kind, int64_t cut) {
    Tensors all;
    for (size_t t = 0; t <= kind.states; ++t) all.push_back(random({kCount}, at::kBFloat16, t).abs());
    const at::Tensor gradient = random({kCount}, at::kFloat, 9);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, cut}, {cut, kCount}}) {
      Tensors part;
      for (const at::Tensor& t : all) part.push_back(t.slice(0, begin, end));
      kind.step(part, gradient.slice(0, begin, end), now, {.parameter = 3, .first = 5 + begin});
    }
    return all;
  };
  for (const Kind& kind : kKinds) {
    const Tensors whole = with_threads(1, [&] { return run(kind, 0); });
    for (int64_t cut : {1, 7, 33'333}) {
      const Tensors found = with_threads(2, [&, at = cut] { return run(kind, at); });
      for (size_t t = 0; t < whole.size(); ++t) EXPECT_TRUE(same_bits(whole[t], found[t])) << kind.name << " " << cut;
    }
  }
}

// master - learning_rate * gradient, rounded.
void descend(const at::Tensor& master, double gradient, int64_t step, float rate = 1) {
  const StepScalars now{.seed = 5, .step = step, .learning_rate = rate};
  const at::Tensor all = at::full(master.sizes(), gradient, at::TensorOptions(at::kFloat));
  sgd_step(master, {}, all, {}, {.momentum = 0}, &now, {.parameter = hash_of("w"), .first = 0});
}

double mean(const at::Tensor& tensor) {
  double sum = 0;
  for (double v : values(tensor)) sum += v;
  return sum / static_cast<double>(tensor.numel());
}

TEST(StochasticRounding, HasNoBias) {
  for (double by : {0.001, 0.0039, 0.007, -0.0005}) {  // from 1, where neighbours are 2^-7 above and 2^-8 below
    double sum = 0;
    constexpr int kSteps = 64;
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor master = at::full({1001}, 1.0, at::TensorOptions(at::kBFloat16));
      descend(master, -by, step);
      for (double v : values(master)) ASSERT_TRUE(v == 1 || v == 1 + 0x1p-7 || v == 1 - 0x1p-8) << v;
      sum += mean(master);
    }
    EXPECT_NEAR(sum / kSteps, 1 + by, 8e-5);  // five standard deviations at most
  }
}

TEST(StochasticRounding, KeepsWhatBf16Holds) {
  const at::Tensor before = random({5001}, at::kBFloat16, 1), master = before.clone();
  for (int step = 0; step < 8; ++step) descend(master, 1, step, 0);
  EXPECT_TRUE(same_bits(master, before));
  for (double small : {0.0, -0.0, 0x1p-133}) {
    const at::Tensor some = at::full({77}, small, at::TensorOptions(at::kBFloat16)), same = some.clone();
    descend(some, 0, 0);
    EXPECT_TRUE(same_bits(some, same)) << small;
  }
}

TEST(StochasticRounding, InfinityAndNanComeThrough) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double gradient : {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
    const at::Tensor master = random({5001}, at::kBFloat16, 1);
    descend(master, gradient, 0);
    for (double v : values(master)) EXPECT_TRUE(std::isnan(gradient) ? std::isnan(v) : v == -gradient) << v;
  }
}

// Rounded to nearest, 1 - 1e-5 is 1 in bf16: a thousand such updates would not move it.
TEST(StochasticRounding, UpdatesFarBelowHalfAUnitMoveTheWeightsOnAverage) {
  ASSERT_EQ(static_cast<float>(at::BFloat16(1 - 1e-5F)), 1.0F);
  const at::Tensor master = at::full({4096}, 1.0, at::TensorOptions(at::kBFloat16));
  for (int step = 0; step < 1000; ++step) descend(master, 1e-5, step);
  EXPECT_NEAR(mean(master), 0.99, 5e-4);
}

}  // namespace
}  // namespace partita::internal
