#include "partita/engine/engine_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "partita/base/error.h"
#include "tests/engine/small_model.h"

namespace partita::internal {
namespace {

using testing::Each;
using testing::ElementsAre;

// Embedding, five layers, head: Llama, whose blocks list parameters of their own alone.
EnginePlan plan(const EngineOptions& options, const Sharding& sharding = {}) {
  return plan_engine(make_blocks(test::small_model(ModelKind::llama, 0), options.compute), sharding, options);
}

std::vector<int64_t> arena_bytes(const EnginePlan& plan) {
  std::vector<int64_t> bytes;
  for (const Lifetime& kept : plan.kept) bytes.push_back(kept.bytes);
  return bytes;
}

EngineOptions small() { return {.shape = {.samples = 2, .length = 13}, .width = 20, .layers_per_unit = 1}; }

TEST(EnginePlan, WhereAllIsTrainedBackwardGoesDownToTheEmbedding) {
  const EnginePlan p = plan(small());
  EXPECT_EQ(p.blocks.first_trainable, 0);
  EXPECT_THAT(p.blocks.backward_reads, ElementsAre(false, true, true, true, true, true, true));
  EXPECT_THAT(p.recompute, Each(Recompute::none));
  EXPECT_EQ(p.kept_bytes, arena_bytes(p));
  EXPECT_EQ(p.gradients.full.size(), p.units.units.size());
  EXPECT_FALSE(p.parameters_off_device);
  EXPECT_FALSE(p.activations_on_host);
}

TEST(EnginePlan, BelowTheFirstTrainedBlockThereIsNoBackward) {
  EngineOptions options = small();
  options.frozen = [](const ParameterSpec& s) { return !s.name.starts_with("layers.2.mlp"); };
  options.recompute = Recompute::mlp;
  options.full_recompute_layers = 4;
  const EnginePlan p = plan(options);
  EXPECT_EQ(p.blocks.first_trainable, 3);
  EXPECT_THAT(p.blocks.backward_reads, ElementsAre(false, false, false, true, true, true, true));
  EXPECT_THAT(p.recompute, ElementsAre(BlockRecompute(), BlockRecompute(), BlockRecompute(), Recompute::full,
                                       Recompute::full, Recompute::mlp, Recompute::mlp));
  EXPECT_EQ(p.kept_bytes[2], 0);
  EXPECT_GT(p.kept_bytes[3], 0);
  EXPECT_LT(p.kept_bytes[4], p.kept_bytes[5]);
}

TEST(EnginePlan, EntryLayersKeepNoMoreThanTheOthers) {
  EngineOptions options = small();
  options.training = false;
  options.full_recompute_layers = 9;
  EXPECT_THAT(plan(options).recompute, Each(BlockRecompute()));
}

// Half precision where one rank alone writes once, or where each micro-batch's gradients are reduced at once.
TEST(EnginePlan, WhatAddsUpIsFp32) {
  struct Case {
    Sharding sharding;
    int micro_batches;
    bool fp32_gradients;
    DType gradient, sum;
  };
  constexpr DType kHalf = DType::bf16, kFull = DType::fp32;
  const Sharding one, copies{.replicas = 2}, states{.ranks = 2}, gradients{.ranks = 2, .gradients = true};
  for (const Case& c : {Case{one, 1, false, kHalf, kHalf}, Case{one, 1, true, kFull, kFull},
                        Case{one, 3, false, kFull, kFull}, Case{copies, 1, false, kFull, kFull},
                        Case{states, 1, false, kFull, kFull}, Case{gradients, 1, false, kHalf, kHalf},
                        Case{gradients, 3, false, kHalf, kFull}, Case{gradients, 3, true, kFull, kFull}}) {
    EngineOptions options = small();
    options.compute = kHalf;
    options.micro_batches = c.micro_batches;
    options.fp32_gradients = c.fp32_gradients;
    for (const Unit& unit : plan(options, c.sharding).units.units) {
      const bool layer = unit.pool == BufferPool::layers;
      EXPECT_EQ(unit.weight, kHalf) << unit.name;
      EXPECT_EQ(unit.gradient, layer ? c.gradient : kFull) << unit.name << ", " << c.micro_batches << " micro-batches";
      EXPECT_EQ(unit.gradient_sum, layer ? c.sum : kFull) << unit.name << ", " << c.micro_batches << " micro-batches";
      EXPECT_EQ(unit.layout.ranks, c.sharding.ranks);
    }
  }
}

TEST(EnginePlan, OffloadedBlocksTakeNothingOfTheArena) {
  EngineOptions options = small();
  options.offload.activations = 3;
  const EnginePlan p = plan(options);
  EXPECT_TRUE(p.activations_on_host);
  EXPECT_FALSE(p.parameters_off_device);
  for (size_t b = 0; b < 7; ++b) {
    const bool offloaded = b >= 1 && b <= 3;
    EXPECT_EQ(p.offload.buffer[b] >= 0, offloaded) << "block " << b;
    EXPECT_EQ(p.kept[b].bytes, offloaded ? 0 : p.kept_bytes[b]) << "block " << b;
  }
  EXPECT_EQ(p.kept_bytes, plan(small()).kept_bytes);
}

TEST(EnginePlan, GradientsThatLeaveShareNoMemoryWithActivations) {
  EngineOptions options = small();
  options.offload.optimizer = 1;
  const EnginePlan p = plan(options);
  EXPECT_TRUE(p.parameters_off_device);
  for (size_t u = 0; u < p.units.units.size(); ++u) {
    EXPECT_TRUE(p.units.units[u].on_host());
    EXPECT_EQ(p.gradients.full[u].bytes + p.gradients.slices[u].bytes, 0);
  }
}

// The last units of the forward pass leave, and only their gradients.
TEST(EnginePlan, AFractionLeavesFromTheEnd) {
  for (int percent = 1; percent < 100; ++percent) {
    EngineOptions options = small();
    options.offload.optimizer = percent / 100.0;
    const EnginePlan p = plan(options);
    EXPECT_TRUE(p.parameters_off_device) << percent;
    bool before = false;
    for (size_t u = 0; u < p.units.units.size(); ++u) {
      const Unit& unit = p.units.units[u];
      EXPECT_EQ(p.gradients.full[u].bytes == 0, unit.on_host()) << unit.name;
      if (unit.pool == BufferPool::persistent)
        EXPECT_FALSE(unit.on_host());
      else
        EXPECT_GE(unit.on_host(), std::exchange(before, unit.on_host())) << unit.name << ", " << percent;
    }
  }
}

// Where adapters alone are trained, all of them are vectors.
TEST(EnginePlan, WhatAloneIsTrainedLeaves) {
  EngineOptions options = small();
  options.frozen = [](const ParameterSpec& s) { return s.shape.size() > 1; };
  options.offload.optimizer = 0.3;
  const EnginePlan p = plan(options);
  for (const Unit& unit : p.units.units) EXPECT_EQ(unit.on_host(), unit.trainable) << unit.name;
}

TEST(EnginePlan, InferenceHasNoGradientsAndOffloadsNothing) {
  EngineOptions options = small();
  options.training = false;
  options.offload = {.optimizer = 1, .activations = 2};
  const EnginePlan p = plan(options);
  EXPECT_FALSE(p.parameters_off_device);
  EXPECT_FALSE(p.activations_on_host);
  EXPECT_TRUE(p.gradients.full.empty());
  for (const int buffer : p.offload.buffer) EXPECT_EQ(buffer, -1);
}

TEST(EnginePlan, StatesAreFp32OrAsTheWeights) {
  EngineOptions options = small();
  options.states = DType::bf16;
  EXPECT_THROW((void)plan(options), Error);
  options.compute = DType::bf16;
  EXPECT_NO_THROW((void)plan(options));
}

}  // namespace
}  // namespace partita::internal
