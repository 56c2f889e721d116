// Master weights and optimizer states in slices, on one rank and on several, on the device and on the host: every
// update is that of whole parameters, computed here.
#include "partita/engine/optimizer_shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "partita/base/random.h"
#include "partita/device/scalar_type.h"
#include "partita/ops/adamw.h"
#include "partita/ops/flat.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"
#include "tests/engine/shards_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(OptimizerShards, UpdatesAreThoseOfWholeParameters) {
  const std::pair<DType, DType> types[] = {
      {DType::fp32, DType::fp32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::fp32}, {DType::fp16, DType::fp32}};
  unsigned turn = 0;
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage)
      for (const bool host : {false, true}) {
        const auto& [compute, gradient] = types[turn % std::size(types)];
        Shards s({.optimizer = optimizer,
                  .stage = stage,
                  .compute = compute,
                  .gradient = gradient,
                  .micro_batches = turn % 5 < 2 ? 2 : 1,
                  .host = host,
                  .late = turn % 2 == 0 ? 0U : 40U,
                  .seed = turn + 1});
        turn += host ? 2 : 1;
        SCOPED_TRACE(name_of(s.c));
        s.set_initial();
        std::map<std::string, Reference> expected = references(s);
        expect_state(s, expected);
        for (int step = 0; step < 3; ++step) {
          s.backward(step);
          double squares = 0;
          for (const auto& [name, p] : s.parameters)
            if (p->trainable) squares += std::pow(norm(s.gradient(*p, step)), 2);
          const double found = s.norm_of_gradients();
          ASSERT_NEAR(found, std::sqrt(squares), 1e-9 * found);
          // Clipped to a half of the norm in step 1, not clipped elsewhere.
          const double most = step == 1 ? found / 2 : found * 2;
          const float scale = clip_factor(found, most);
          EXPECT_NEAR(scale, step == 1 ? 0.5 : 1, 1e-5);
          for (auto& [name, reference] : expected) {
            if (!s.parameters.at(name)->trainable) continue;
            Values g = s.gradient(*s.parameters.at(name), step);
            for (double& x : g) x *= scale;
            reference.step(optimizer, g, kRate, step);
          }
          StepMemory now(at::kCPU);
          now.host = {.seed = 5, .step = step + 3, .update = step, .learning_rate = kRate, .gradient_scale = scale};
          now.publish();
          s.shards.update(now);
          now.host.learning_rate = std::nanf("");  // of the next step, while the host still updates
          expect_state(s, expected);
          if (HasFatalFailure()) return;  // ends all ranks
        }
      }
}

// Stochastic rounding depends on the parameter's name and the element's place in it, not on slices.
TEST(OptimizerShards, Bf16StatesHaveTheBitsOfWholeParameters) {
  unsigned turn = 0;
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage) {
      Shards s({.optimizer = optimizer,
                .stage = stage,
                .compute = DType::bf16,
                .states = DType::bf16,
                .host = (turn + turn / 4) % 2 == 1,
                .seed = turn + 20});
      ++turn;
      SCOPED_TRACE(name_of(s.c));
      s.set_initial();
      const std::map<std::string, Reference> before = references(s);
      std::map<std::string, std::vector<at::Tensor>> expected;  // weights and states
      for (const auto& [name, reference] : before)
        for (size_t v = 0; v < 3; ++v)
          expected[name].push_back(
              tensor_of({static_cast<int64_t>(reference.w.size())}, v == 0 ? reference.w : reference.a, at::kBFloat16));
      for (int step = 0; step < 2; ++step) {
        s.backward(step);
        StepMemory now(at::kCPU);
        now.host = {.seed = 77, .step = step, .update = step, .learning_rate = kRate, .gradient_scale = 0.125F};
        now.publish();
        s.shards.update(now);
        for (auto& [name, v] : expected) {
          const ParameterSpec& p = *s.parameters.at(name);
          if (!p.trainable) continue;
          const Values g = s.gradient(p, step);
          const at::Tensor gradient = tensor_of({p.count()}, g, at::kFloat);
          const Rounding rounding{.parameter = hash_of(name), .first = 0};
          const double decay = p.decay ? optimizer.weight_decay : 0;
          if (optimizer.kind == OptimizerKind::adamw) {
            adamw_step(v[0], v[1], v[2], gradient, {}, {.weight_decay = decay}, &now.host, rounding);
          } else if (optimizer.kind == OptimizerKind::sgd) {
            sgd_step(v[0], optimizer.momentum > 0 ? v[1] : at::Tensor(), gradient, {},
                     {.momentum = optimizer.momentum, .weight_decay = decay}, &now.host, rounding);
          } else {
            const Lamb lamb{.weight_decay = decay};
            const double ratio = lamb_ratio(lamb_measure(v[0], v[1], v[2], gradient, lamb, &now.host));
            lamb_step(v[0], v[1], v[2], gradient, {}, lamb, ratio, &now.host, rounding);
          }
          if (step > 0) continue;
          // And those bits are near the formula: each value was rounded to one of its two neighbors.
          Reference reference = before.at(name);
          Values scaled = g;
          for (double& x : scaled) x *= 0.125;
          reference.step(optimizer, scaled, kRate, 0);
          const at::Tensor w = v[0].to(at::kDouble), m = v[1].to(at::kDouble);
          for (size_t i = 0; i < g.size(); ++i) {
            ASSERT_NEAR(w.data_ptr<double>()[i], reference.w[i], std::abs(reference.w[i]) / 128 + 1e-5) << name << i;
            if (s.shards.optimizer_state_names().empty()) continue;
            ASSERT_NEAR(m.data_ptr<double>()[i], reference.a[i], std::abs(reference.a[i]) / 128 + 1e-5) << name << i;
          }
        }
        const auto gathered = s.gathered();
        for (const auto& [name, v] : expected) EXPECT_TRUE(gathered.at(name).view({-1}).equal(v[0])) << name;
        for (const OwnedBox& owned : s.shards.owned_boxes())
          for (size_t v = 0; v < owned.values.size(); ++v) {
            const at::Tensor whole = expected.at(owned.parameter->name)[v].to(at::kDouble),
                             found = owned.values[v].to(at::kDouble);
            EXPECT_EQ(dtype_of(owned.values[v]), DType::bf16);
            each_element(owned, [&](int64_t i, size_t place) {
              ASSERT_EQ(found.data_ptr<double>()[i], whole.data_ptr<double>()[place])
                  << owned.parameter->name << ", value " << v << ", element " << place << ", step " << step;
            });
          }
      }
    }
}

TEST(OptimizerShards, AStepWithoutAFiniteNormChangesNothing) {
  unsigned turn = 0;
  for (const OptimizerOptions& optimizer : kOptimizers)
    for (int stage = 0; stage <= 3; ++stage)
      for (const bool host : {false, true}) {
        Shards s({.optimizer = optimizer,
                  .stage = stage,
                  .compute = turn / 2 % 2 == 0 ? DType::fp16 : DType::fp32,
                  .host = host,
                  .late = 0,
                  .seed = turn + 40});
        ++turn;
        SCOPED_TRACE(name_of(s.c));
        s.set_initial();
        std::map<std::string, Reference> expected = references(s);
        int64_t update = 0;
        for (const bool bad : {true, false, true, true, false}) {
          const std::vector<at::Tensor> before = s.copy_of_values();
          const auto gathered = s.gathered();
          s.backward(7, bad);
          const double norm = s.norm_of_gradients();
          EXPECT_EQ(std::isfinite(norm), !bad) << "the infinity of one rank is known to all";
          StepMemory now(at::kCPU);
          now.host = {.update = update, .learning_rate = kRate, .skip = bad ? 1 : 0};
          now.publish();
          s.shards.update(now);
          EXPECT_EQ(equal(s.copy_of_values(), before), bad);
          EXPECT_EQ(equal(s.gathered(), gathered), bad);
          if (bad) continue;
          for (auto& [name, reference] : expected)
            if (s.parameters.at(name)->trainable)
              reference.step(optimizer, s.gradient(*s.parameters.at(name), 7), kRate, update);
          expect_state(s, expected);
          if (HasFatalFailure()) return;  // ends all ranks
          ++update;
        }
      }
}

// Copies at once, and remembers what went up.
class RecordedCopies final : public Copies {
 public:
  explicit RecordedCopies(std::vector<const void*>& up) : up_(up) {}
  Event down(at::Tensor host, at::Tensor device, const Event& after) override {
    after.wait();
    host.copy_(device);
    return {};
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override {
    after.wait();
    device.copy_(host);
    up_.push_back(device.const_data_ptr());
    return {};
  }

 private:
  std::vector<const void*>& up_;
};

// The first layer reads biases and norms: on the host they come first, then the rest in the order of forward.
TEST(OptimizerShards, TheHostUpdatesInTheOrderOfForward) {
  std::vector<const void*> up;
  Shards s({.stage = 1, .compute = DType::bf16, .host = true}, std::make_unique<RecordedCopies>(up));
  s.set_initial();
  s.backward(0);
  up.clear();
  StepMemory now(at::kCPU);
  now.host.learning_rate = kRate;
  s.shards.update(now);
  s.shards.finish();
  std::vector<const void*> expected;
  for (const bool vectors : {true, false})
    for (size_t u = 0; u < s.plan.units.size(); ++u)
      if (s.plan.units[u].trainable && (s.plan.units[u].pool == BufferPool::persistent) == vectors)
        expected.push_back(s.weights.slice(static_cast<int>(u)).const_data_ptr());
  EXPECT_GT(expected.size(), 3U);
  EXPECT_EQ(up, expected);
}

TEST(OptimizerShards, WrongOptionsAreNamed) {
  const auto error = [](const OptimizerOptions& options) {
    return error_message([&] { Shards({.optimizer = options}); });
  };
  EXPECT_THAT(error({.beta1 = 1}), HasSubstr("beta1 is 1, expected at least 0 and less than 1"));
  EXPECT_THAT(error({.kind = OptimizerKind::lamb, .epsilon = 0}), HasSubstr("epsilon is 0"));
  EXPECT_THAT(error({.kind = OptimizerKind::sgd, .momentum = -1}), HasSubstr("momentum is -1"));
  EXPECT_EQ(error({}), "no error");
}

}  // namespace
}  // namespace partita::internal
