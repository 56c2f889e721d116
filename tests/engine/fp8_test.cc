// Layers with fp8 matmuls.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/comm/world.h"
#include "partita/engine/engine.h"
#include "partita/nn/linear.h"
#include "partita/ops/cross_entropy.h"
#include "tests/engine/small_model.h"

namespace partita::internal {
namespace {

using test::EngineCase;

class Fp8EngineTest : public testing::Test {
 protected:
  World world_ = World::connect({});
  std::unique_ptr<Communicator> self_ = world_.self();

  std::unique_ptr<Engine> make(const EngineCase& c) { return test::make_engine(c, *self_, *self_); }
  std::vector<StepResult> run(const EngineCase& c, int64_t steps) {
    return test::run_steps(*make(c), c, 0, 1, 0, steps);
  }
  // 16 samples of 13 tokens: a multiple of 16 rows.
  static EngineCase in_fp8(ModelKind kind, bool delayed = false) {
    return {.kind = kind, .samples = 16, .compute = DType::bf16, .fp8 = true, .delayed_scales = delayed};
  }
};

void expect_same(const std::vector<StepResult>& found, const std::vector<StepResult>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].loss, expected[i].loss) << i;
    EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm) << i;
  }
}

TEST(Fp8Linear, SizesDecide) {
  LinearIndices next{.parameter = 1, .slot = 3, .scratch = 0, .fp8 = true};
  const auto with = [&](int64_t in, int64_t out) {
    return Linear({.weight = 0, .in = in, .parts = {{"mlp.down", out}}}, 0, {}, next);
  };
  EXPECT_TRUE(with(32, 48).is_fp8(208));
  EXPECT_FALSE(with(32, 48).is_fp8(1));
  EXPECT_FALSE(with(32, 48).is_fp8(0));
  EXPECT_FALSE(with(40, 48).is_fp8(208));
  EXPECT_FALSE(with(32, 40).is_fp8(208));
  EXPECT_EQ(with(32, 48).input_saved(208), std::nullopt);
  EXPECT_EQ(with(32, 40).input_saved(208), Recompute::none);
  next.fp8 = false;
  EXPECT_FALSE(with(32, 48).is_fp8(208));
}

TEST_F(Fp8EngineTest, TrainsCloseToBf16AndIsNotTheSame) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    const auto repeat = [&](bool fp8, bool delayed, int64_t steps) {
      EngineCase now = in_fp8(kind, delayed);
      now.dropout = 0;
      auto engine = make(now);
      if (!fp8) {  // 17 samples are no multiple of 16 rows
        now.samples = 17;
        engine = make(now);
      }
      std::vector<double> losses;
      Batch batch = test::make_batch(0, now.samples);
      if (!fp8) batch.labels.narrow(0, 16, 1).fill_(kIgnoredLabel);
      for (int64_t step = 0; step < steps; ++step)
        losses.push_back(
            engine->step(std::span(&batch, 1), {.step = step, .update = step, .learning_rate = 1e-2F, .clip = 1}).loss);
      return losses;
    };
    const std::vector<double> bf16 = repeat(false, false, 15);
    for (bool delayed : {false, true}) {
      const std::vector<double> fp8 = repeat(true, delayed, 15);
      EXPECT_LT(fp8.back(), 0.8 * fp8.front());
      bool differ = false;
      for (size_t i = 0; i < fp8.size(); ++i) {
        EXPECT_NEAR(fp8[i], bf16[i], 0.03 * bf16.front()) << i;
        differ |= fp8[i] != bf16[i];
      }
      EXPECT_TRUE(differ);
    }
  }
}

TEST_F(Fp8EngineTest, RecomputationGivesTheSameBits) {
  for (const auto& [kind, delayed] : {std::pair(ModelKind::gpt2, false), std::pair(ModelKind::llama, false),
                                      std::pair(ModelKind::gpt2, true), std::pair(ModelKind::llama, true)})
    for (int64_t rank : {0, 3}) {
      EngineCase c = in_fp8(kind, delayed);
      c.micro_batches = 2;
      c.dropout = 0.2;
      c.lora = {.rank = rank, .dropout = 0.2, .targets = kind == ModelKind::gpt2 ? "c_attn,c_fc" : "q_proj,down_proj"};
      const auto expected = run(c, 3);
      for (const auto& [recompute, full_recompute_layers] :
           {std::pair(Recompute::selective, 0), std::pair(Recompute::mlp, 0), std::pair(Recompute::full, 0),
            std::pair(Recompute::mlp, 2)}) {
        c.recompute = recompute;
        c.full_recompute_layers = full_recompute_layers;
        expect_same(run(c, 3), expected);
      }
    }
}

// Adapters beside matrices that are trained too: x in 8 bits is made in backward.
TEST_F(Fp8EngineTest, AdaptersBesideTrainedMatrices) {
  EngineCase c = in_fp8(ModelKind::llama);
  c.lora = {.rank = 3, .targets = "q_proj,down_proj"};
  c.frozen = [](const ParameterSpec&) { return false; };
  const auto expected = run(c, 2);
  c.recompute = Recompute::full;
  expect_same(run(c, 2), expected);
  for (const StepResult& r : expected) EXPECT_FALSE(r.skipped);
}

TEST_F(Fp8EngineTest, FreshMemoryIsNotRead) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (const auto& [recompute, delayed] : {std::pair(Recompute::none, false), std::pair(Recompute::mlp, false),
                                             std::pair(Recompute::full, false), std::pair(Recompute::none, true)}) {
      EngineCase c = in_fp8(kind, delayed);
      c.recompute = recompute;
      const auto plain = run(c, 2);
      c.poison = true;
      expect_same(run(c, 2), plain);
    }
}

TEST_F(Fp8EngineTest, KeepsLess) {
  EngineCase c = in_fp8(ModelKind::llama);
  const int64_t in_8 = make(c)->memory().activations;
  c.samples = 17;
  const int64_t in_16 = make(c)->memory().activations * 16 / 17;
  EXPECT_LT(in_8, 0.9 * static_cast<double>(in_16));
}

TEST_F(Fp8EngineTest, WhatIsNotFiniteSkipsTheStep) {
  EngineCase c = in_fp8(ModelKind::llama);
  const auto engine = make(c);
  for (const OwnedBox& run : engine->owned_boxes())
    if (run.parameter->name == "layers.2.mlp.down.weight")
      run.values[0].narrow(0, 5, 1).fill_(std::numeric_limits<float>::infinity());
  engine->publish_weights();
  EXPECT_TRUE(test::run_steps(*engine, c, 0, 1, 0, 1).front().skipped);
}

TEST_F(Fp8EngineTest, EvaluationTakesTheSamePrecision) {
  EngineCase c = in_fp8(ModelKind::gpt2);
  c.dropout = 0;
  const auto engine = make(c);
  const Batch batch = test::make_batch(0, 16);
  const EvalResult r = engine->evaluate(batch);
  const StepResult step = engine->step(std::span(&batch, 1), {.learning_rate = 0});
  EXPECT_NEAR(r.loss_sum / static_cast<double>(r.tokens), step.loss, 1e-5);
}

std::vector<float> values_of(const Engine& engine) {
  std::vector<float> all;
  for (const OwnedBox& run : engine.owned_boxes())
    for (const at::Tensor& values : run.values) {
      const at::Tensor wide = values.to(at::kFloat);
      all.insert(all.end(), wide.const_data_ptr<float>(), wide.const_data_ptr<float>() + wide.numel());
    }
  return all;
}

// In the first step nothing is known: tensors are scaled by what they are.
TEST_F(Fp8EngineTest, DelayedScalesBeginAsCurrentOnes) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    EngineCase c = in_fp8(kind), d = in_fp8(kind, true);
    c.micro_batches = d.micro_batches = 2;
    const auto current = run(c, 3), delayed = run(d, 3);
    EXPECT_EQ(delayed[0].loss, current[0].loss);
    EXPECT_EQ(delayed[0].grad_norm, current[0].grad_norm);
    EXPECT_NE(delayed[2].grad_norm, current[2].grad_norm);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(delayed[i].loss, current[i].loss, 0.01 * current[i].loss) << i;
  }
}

TEST_F(Fp8EngineTest, DelayedScalesGoOnWithTheirHistory) {
  EngineCase c = in_fp8(ModelKind::llama, true);
  c.micro_batches = 2;
  const auto first = make(c), second = make(c), without = make(c);
  EXPECT_TRUE(first->amax_history().empty());
  test::run_steps(*first, c, 0, 1, 0, 3);
  const auto begun = first->owned_boxes();
  for (Engine* engine : {second.get(), without.get()}) {
    const auto runs = engine->owned_boxes();
    for (size_t i = 0; i < runs.size(); ++i)
      for (size_t k = 0; k < runs[i].values.size(); ++k) runs[i].values[k].copy_(begun[i].values[k]);
    engine->publish_weights();
  }
  EXPECT_EQ(first->amax_history().size(), 5U * 4 * 3 * AmaxHistory::kSteps);
  second->set_amax_history(first->amax_history());
  without->set_amax_history({});
  const auto expected = test::run_steps(*first, c, 0, 1, 3, 6), found = test::run_steps(*second, c, 0, 1, 3, 6);
  expect_same(found, expected);
  EXPECT_EQ(values_of(*second), values_of(*first));
  EXPECT_EQ(second->amax_history(), first->amax_history());
  const auto anew = test::run_steps(*without, c, 0, 1, 3, 6);
  for (size_t i = 0; i < anew.size(); ++i) EXPECT_NEAR(anew[i].loss, expected[i].loss, 0.01 * expected[i].loss);
  EXPECT_THROW(second->set_amax_history(std::vector<float>(7)), Error);
  second->set_amax_history({});
  EXPECT_TRUE(second->amax_history().empty());
}

TEST_F(Fp8EngineTest, EvaluationLeavesTheHistoryAlone) {
  EngineCase c = in_fp8(ModelKind::gpt2, true);
  const auto plain = make(c), evaluated = make(c);
  Batch other = test::make_batch(1000, 16);
  for (int64_t step = 0; step < 4; ++step) {
    evaluated->evaluate(other);
    expect_same(test::run_steps(*evaluated, c, 0, 1, step, step + 1), test::run_steps(*plain, c, 0, 1, step, step + 1));
  }
  EXPECT_EQ(evaluated->amax_history(), plain->amax_history());
}

// What is infinite is rounded into range by a scale of the steps before, and must be noticed all the same.
TEST_F(Fp8EngineTest, DelayedScalesHideNothing) {
  EngineCase c = in_fp8(ModelKind::llama, true);
  const auto engine = make(c);
  test::run_steps(*engine, c, 0, 1, 0, 2);
  const std::vector<float> history = engine->amax_history();
  const auto fill = [&](float value) {
    for (const OwnedBox& run : engine->owned_boxes())
      if (run.parameter->name == "layers.2.mlp.down.weight") run.values[0].narrow(0, 5, 1).fill_(value);
    engine->publish_weights();
  };
  fill(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(test::run_steps(*engine, c, 0, 1, 2, 3).front().skipped);
  EXPECT_EQ(engine->amax_history(), history);
  fill(0.5F);  // far more than any before: rounded to the last value in range, and remembered
  EXPECT_FALSE(test::run_steps(*engine, c, 0, 1, 3, 4).front().skipped);
  EXPECT_TRUE(std::ranges::count(engine->amax_history(), 0.5F) > 0);
}

}  // namespace
}  // namespace partita::internal
