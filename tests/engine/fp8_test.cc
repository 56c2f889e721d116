// Layers whose linears multiply in 8 bits.
#include <gtest/gtest.h>

#include <limits>

#include "partita/comm/world.h"
#include "partita/engine/engine.h"
#include "partita/nn/linear.h"
#include "tests/engine/small_model.h"

namespace partita {
namespace {

using test::EngineCase;

class Fp8EngineTest : public testing::Test {
 protected:
  World world_ = World::connect({});
  std::unique_ptr<Communicator> self_ = world_.group("self", {0});

  std::unique_ptr<Engine> make(const EngineCase& c) { return test::make_engine(c, *self_, *self_); }
  std::vector<StepResult> run(const EngineCase& c, int64_t steps) {
    return test::run_steps(*make(c), c, 0, 1, 0, steps);
  }
  // 16 samples of 13 tokens: a multiple of 16 rows.
  static EngineCase in_fp8(ModelKind kind) {
    return {.kind = kind, .samples = 16, .compute = DType::bf16, .fp8 = true};
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
  LinearPlaces next{.parameter = 1, .slot = 3, .scratch = 0, .fp8 = true};
  const auto with = [&](int64_t in, int64_t out) {
    return Linear({.weight = 0, .in = in, .parts = {{"mlp.down", 0, out}}}, 0, {}, next);
  };
  EXPECT_TRUE(with(32, 48).is_fp8(208));
  EXPECT_FALSE(with(32, 48).is_fp8(1));
  EXPECT_FALSE(with(32, 48).is_fp8(0));
  EXPECT_FALSE(with(40, 48).is_fp8(208));
  EXPECT_FALSE(with(32, 40).is_fp8(208));
  EXPECT_EQ(with(32, 48).input_keep(208), Keep::never);
  EXPECT_EQ(with(32, 40).input_keep(208), Keep::all);
  next.fp8 = false;
  EXPECT_FALSE(with(32, 48).is_fp8(208));
}

TEST_F(Fp8EngineTest, TrainsCloseToBf16AndIsNotTheSame) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    EngineCase c = in_fp8(kind);
    c.dropout = 0;
    const auto repeat = [&](bool fp8, int64_t steps) {
      EngineCase now = c;
      now.fp8 = true;  // the same model
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
    const std::vector<double> fp8 = repeat(true, 15), bf16 = repeat(false, 15);
    EXPECT_LT(fp8.back(), 0.8 * fp8.front());
    bool differ = false;
    for (size_t i = 0; i < fp8.size(); ++i) {
      EXPECT_NEAR(fp8[i], bf16[i], 0.03 * bf16.front()) << i;
      differ |= fp8[i] != bf16[i];
    }
    EXPECT_TRUE(differ);
  }
}

TEST_F(Fp8EngineTest, RecomputationGivesTheSameBits) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (int64_t rank : {0, 3}) {
      EngineCase c = in_fp8(kind);
      c.micro_batches = 2;
      c.dropout = 0.2;
      c.lora = {.rank = rank, .dropout = 0.2, .targets = kind == ModelKind::gpt2 ? "c_attn,c_fc" : "q_proj,down_proj"};
      const auto expected = run(c, 2);
      for (const auto& [keep, entry_layers] : {std::pair(Keep::selective, 0), std::pair(Keep::attention, 0),
                                               std::pair(Keep::entry, 0), std::pair(Keep::attention, 2)}) {
        c.keep = keep;
        c.entry_layers = entry_layers;
        expect_same(run(c, 2), expected);
      }
    }
}

// Adapters beside matrices that are trained too: x in 8 bits is made in backward.
TEST_F(Fp8EngineTest, AdaptersBesideTrainedMatrices) {
  EngineCase c = in_fp8(ModelKind::llama);
  c.lora = {.rank = 3, .targets = "q_proj,down_proj"};
  c.frozen = [](const ParameterSpec&) { return false; };
  const auto expected = run(c, 2);
  c.keep = Keep::entry;
  expect_same(run(c, 2), expected);
  for (const StepResult& r : expected) EXPECT_FALSE(r.skipped);
}

TEST_F(Fp8EngineTest, FreshMemoryIsNotRead) {
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama})
    for (Keep keep : {Keep::all, Keep::attention, Keep::entry}) {
      EngineCase c = in_fp8(kind);
      c.keep = keep;
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
  for (const OwnedRun& run : engine->owned_runs())
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

}  // namespace
}  // namespace partita
