// With fp8 matmuls, all ZeRO stages give the same run: current scales come from a rank's own tensors, delayed scales
// from those of all ranks, and the stage does not change which rank multiplies what.
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/zero_reference.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

TEST(Fp8Ranks, StagesAreTheSameRun) {
  const auto self = test_world().self();
  const auto data = test_world().group("data", test_ranks());
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const auto& [kind, delayed] :
       {std::pair(ModelKind::gpt2, false), std::pair(ModelKind::llama, false), std::pair(ModelKind::llama, true)}) {
    test::EngineCase c{.kind = kind,
                       .samples = 16,
                       .fp32_gradients = true,
                       .compute = DType::bf16,
                       .fp8 = true,
                       .delayed_scales = delayed};
    std::vector<StepResult> expected;
    for (int stage : {0, 1, 2, 3}) {
      c.stage = stage;
      c.recompute = stage == 3 ? Recompute::full : Recompute::none;
      const auto engine = test::make_engine(c, *self, *data);
      const auto found = test::run_steps(*engine, c, rank, ranks, 0, 3);
      EXPECT_EQ(engine->amax_history().empty(), !delayed);
      test::expect_equal_on_ranks(engine->amax_history(), *data);
      if (expected.empty()) expected = found;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].loss, expected[i].loss) << "stage " << stage << ", step " << i;
        EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, 1e-6 * expected[i].grad_norm) << "stage " << stage;
        EXPECT_FALSE(found[i].skipped);
      }
    }
  }
}

// What is infinite on one rank alone is rounded into range there: all ranks must skip the step, and forget it.
TEST(Fp8Ranks, WhatIsNotFiniteOnOneRankSkipsTheStepOnAll) {
  const auto self = test_world().self();
  const auto data = test_world().group("data", test_ranks());
  const int rank = test_world().rank(), ranks = test_world().size();
  const test::EngineCase c{
      .kind = ModelKind::llama, .samples = 16, .compute = DType::bf16, .fp8 = true, .delayed_scales = true};
  const auto engine = test::make_engine(c, *self, *data);
  test::run_steps(*engine, c, rank, ranks, 0, 2);
  const std::vector<float> history = engine->amax_history();
  if (rank == ranks - 1)
    for (const OwnedBox& run : engine->owned_boxes())
      if (run.parameter->name == "layers.2.mlp.down.weight")
        run.values[0].narrow(0, 5, 1).fill_(std::numeric_limits<float>::infinity());
  engine->publish_weights();
  EXPECT_TRUE(test::run_steps(*engine, c, rank, ranks, 2, 3).front().skipped);
  EXPECT_EQ(engine->amax_history(), history);
}

}  // namespace
}  // namespace partita::internal
