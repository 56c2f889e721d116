// Every ZeRO stage on any number of ranks reproduces the single-process run.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "partita/comm/recording.h"
#include "partita/engine/initial_weights.h"
#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::expect_equal;
using test::expect_same_values;
using test::Groups;
using test::kGlobalBatch;
using test::reference;

struct Kind {
  std::string name;
  EngineCase c;
};

bool some_frozen(const ParameterSpec& p) {
  return p.name.starts_with("embedding.") || p.name.starts_with("layers.0.") || p.name == "layers.2.mlp.down.weight" ||
         p.name == "layers.3.attention.norm.weight";
}
bool layers_frozen(const ParameterSpec& p) { return p.name.starts_with("layers."); }

std::vector<Kind> kinds() {
  const LoraConfig gpt2_lora{.rank = 3, .alpha = 5, .dropout = 0.1, .targets = "c_attn,c_proj,c_fc"},
      llama_lora{.rank = 3, .alpha = 5, .dropout = 0.1, .targets = "q_proj,v_proj,o_proj,gate_proj,down_proj"};
  return {
      {"gpt2", {}},
      {"gpt2, untied, frozen in part, full recomputation",
       {.tied_head = TiedHead::no, .frozen = some_frozen, .recompute = Recompute::full}},
      {"gpt2, layers frozen", {.frozen = layers_frozen}},
      {"gpt2, adapters, selective recomputation", {.lora = gpt2_lora, .recompute = Recompute::selective}},
      {"llama, full recomputation", {.kind = ModelKind::llama, .recompute = Recompute::full}},
      {"llama, tied", {.kind = ModelKind::llama, .tied_head = TiedHead::yes}},
      {"llama, frozen in part", {.kind = ModelKind::llama, .frozen = some_frozen, .recompute = Recompute::selective}},
      {"llama, adapters, full recomputation",
       {.kind = ModelKind::llama, .lora = llama_lora, .recompute = Recompute::full}},
      {"gpt2, SGD", {.optimizer = OptimizerKind::sgd}},
      {"llama, LAMB", {.kind = ModelKind::llama, .optimizer = OptimizerKind::lamb}}};
}

TEST(Zero, EveryStageIsTheSingleProcessRun) {
  Groups groups;
  const int ranks = groups.data->size();
  for (const auto& [name, like] : kinds()) {
    const std::vector<StepResult> expected = reference(like, *groups.self, 8);
    EXPECT_GT(expected.front().grad_norm, 0.1) << name;
    for (int stage = 0; stage <= 3; ++stage)
      for (int micro_batches : {1, ranks == 3 ? 4 : 3}) {
        EngineCase c = like;
        c.stage = stage;
        c.samples = static_cast<int>(kGlobalBatch) / ranks / micro_batches;
        c.micro_batches = micro_batches;
        ASSERT_EQ(c.samples * micro_batches * ranks, kGlobalBatch);
        const auto engine = test::make_engine(c, *groups.self, *groups.data);
        const std::string what =
            name + ", stage " + std::to_string(stage) + ", micro-batches " + std::to_string(micro_batches);
        expect_equal(test::run_steps(*engine, c, groups.data->rank(), ranks, 0, 8), expected, 1e-5, what);
      }
  }
}

// Ranks with different numbers of valid tokens: the gradients are those of one process with all of them.
TEST(Zero, EveryGradientIsTheSingleProcessGradient) {
  Groups groups;
  const int ranks = groups.data->size();
  for (const auto& [name, like] : kinds()) {
    EngineCase one = like;
    one.samples = kGlobalBatch;
    const auto whole = test::make_engine(one, *groups.self, *groups.self);
    const auto step = [&](Engine& engine, const EngineCase& c, int rank, int count) {
      return engine.step(test::rank_batches(c, 0, rank, count), {.learning_rate = 0, .clip = 0});
    };
    const StepResult expected = step(*whole, one, 0, 1);
    for (int stage = 0; stage <= 3; ++stage) {
      EngineCase c = like;
      c.stage = stage;
      c.samples = static_cast<int>(kGlobalBatch) / ranks;
      const auto engine = test::make_engine(c, *groups.self, *groups.data);
      const StepResult found = step(*engine, c, groups.data->rank(), ranks);
      EXPECT_EQ(found.tokens, expected.tokens);
      EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
      expect_same_values(*engine, *whole, name + ", stage " + std::to_string(stage));
    }
  }
}

// What is frozen keeps every bit, is gathered once in a run at stages 0 to 2, and costs neither gradient nor states.
TEST(Zero, FrozenWeightsStayAsTheyWere) {
  Groups groups;
  const int ranks = groups.data->size(), rank = groups.data->rank();
  for (DType compute : {DType::fp32, DType::bf16})
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineCase c{.kind = ModelKind::llama, .lora = {.rank = 3}, .stage = stage, .compute = compute};
      RecordingCommunicator self(*groups.self), data(*groups.data);
      const auto engine = test::make_engine(c, self, data);
      std::vector<at::Tensor> before;
      for (const OwnedBox& run : engine->owned_boxes())
        if (!run.parameter->trainable) before.push_back(run.values[0].clone());
      (void)test::run_steps(*engine, c, rank, ranks, 0, 1);
      self.clear();
      data.clear();
      (void)test::run_steps(*engine, c, rank, ranks, 1, 4);
      size_t next = 0;
      for (const OwnedBox& run : engine->owned_boxes())
        if (!run.parameter->trainable) {
          EXPECT_EQ(run.values.size(), 1U);
          EXPECT_TRUE(run.values[0].equal(before.at(next++))) << run.parameter->name;
        }
      int64_t trained = 0;
      for (const Unit& unit : engine->plan().units) trained += unit.trainable ? unit.layout.count : 0;
      if (stage < 3) {
        EXPECT_EQ(data.bytes("all_gather"), stage > 0 && ranks > 1 ? 3 * size_of(compute) * trained : 0);
      }
      const int64_t shards = stage == 0 ? 1 : ranks;
      EXPECT_EQ(engine->memory().optimizer, 2 * 4 * trained / shards);
      EXPECT_EQ(engine->memory().master, compute == DType::fp32 ? 0 : 4 * trained / shards);
      EXPECT_LE(engine->memory().gradients, 2 * 4 * trained);
    }
}

// One rank's gradients are not finite: no rank updates anything, and all go on together.
TEST(Zero, OverflowOnOneRankSkipsTheStepOnAll) {
  Groups groups;
  const int ranks = groups.data->size(), rank = groups.data->rank();
  for (DType compute : {DType::fp32, DType::fp16})
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineCase c{
          .tied_head = TiedHead::no, .stage = stage, .compute = compute, .loss_scale = 1024, .dropout = 0};
      const auto engine = test::make_engine(c, *groups.self, *groups.data);
      // A row of the token table that only the last rank reads.
      constexpr int32_t kToken = 60;
      engine->set_weights([](const ParameterSpec& p, const Box& box, const at::Tensor& out) {
        initial_weights(out, p, 42, box);
        if (p.name != "embedding.token.weight") return;
        const Box row{.row = kToken, .rows = 1, .column = 0, .columns = p.shape[1]};
        if (const auto shared = overlap(box, row))
          out.narrow(0, offset_in(box, *shared), shared->count()).fill_(std::numeric_limits<double>::infinity());
      });
      std::vector<Batch> batches = test::rank_batches(c, 0, rank, ranks);
      int32_t* tokens = batches[0].tokens.data_ptr<int32_t>();
      for (int64_t i = 0; i < batches[0].tokens.numel(); ++i) tokens[i] %= kToken;
      if (rank == ranks - 1) tokens[3] = kToken;
      std::vector<at::Tensor> before;
      for (const OwnedBox& run : engine->owned_boxes()) before.push_back(run.values[0].clone());
      const StepInput input{.learning_rate = 1e-3F, .clip = 1, .loss_scale = c.loss_scale};
      EXPECT_TRUE(engine->step(batches, input).skipped) << "stage " << stage;
      size_t next = 0;
      for (const OwnedBox& run : engine->owned_boxes())
        EXPECT_TRUE(run.values[0].equal(before.at(next++))) << run.parameter->name;
      if (rank == ranks - 1) tokens[3] = 5;
      EXPECT_FALSE(engine->step(batches, input).skipped) << "stage " << stage;
    }
}

TEST(Zero, PoisonedMemoryChangesNothing) {
  Groups groups;
  const int ranks = groups.data->size();
  for (int stage = 0; stage <= 3; ++stage)
    for (const auto& [name, like] : kinds()) {
      EngineCase c = like;
      c.stage = stage;
      c.samples = 1;
      c.micro_batches = name.size() % 2 == 0 ? 1 : 2;  // 1: gradients lie where activations lay
      const auto plain = test::make_engine(c, *groups.self, *groups.data);
      const auto expected = test::run_steps(*plain, c, groups.data->rank(), ranks, 0, 4);
      c.poison = true;
      const auto poisoned = test::make_engine(c, *groups.self, *groups.data);
      const auto found = test::run_steps(*poisoned, c, groups.data->rank(), ranks, 0, 4);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].loss, expected[i].loss) << name << ", stage " << stage;
        EXPECT_EQ(found[i].grad_norm, expected[i].grad_norm) << name << ", stage " << stage;
      }
    }
}

// 5 + 5 steps with everything handed over to a new engine equal 10 steps, bit for bit.
TEST(Zero, ContinuesBitForBit) {
  Groups groups;
  const int ranks = groups.data->size(), rank = groups.data->rank();
  for (DType compute : {DType::fp32, DType::bf16})
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineCase c{.stage = stage, .samples = 2, .compute = compute};
      const auto whole = test::make_engine(c, *groups.self, *groups.data),
                 first = test::make_engine(c, *groups.self, *groups.data),
                 second = test::make_engine(c, *groups.self, *groups.data);
      const auto expected = test::run_steps(*whole, c, rank, ranks, 0, 10);
      (void)test::run_steps(*first, c, rank, ranks, 0, 5);
      const auto from = first->owned_boxes(), to = second->owned_boxes();
      ASSERT_EQ(from.size(), to.size());
      for (size_t i = 0; i < from.size(); ++i)
        for (size_t k = 0; k < from[i].values.size(); ++k) to[i].values[k].copy_(from[i].values[k]);
      second->publish_weights();
      const auto found = test::run_steps(*second, c, rank, ranks, 5, 10);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(found[i].loss, expected[i + 5].loss) << "stage " << stage;
        EXPECT_EQ(found[i].grad_norm, expected[i + 5].grad_norm) << "stage " << stage;
      }
    }
}

}  // namespace
}  // namespace partita::internal
