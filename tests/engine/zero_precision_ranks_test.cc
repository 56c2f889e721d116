// ZeRO in half precision: stages agree within rounding, and stochastic rounding is independent of the stage.
#include <gtest/gtest.h>

#include "tests/engine/zero_reference.h"

namespace partita::internal {
namespace {

using test::EngineCase;
using test::Groups;
using test::kGlobalBatch;
using test::reference;

// Half precision stays near fp32, also where master weights and states are in bf16.
TEST(Zero, HalfPrecisionFollowsFp32) {
  Groups groups;
  const int ranks = groups.data->size();
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    const std::vector<StepResult> expected = reference({.kind = kind}, *groups.self, 10);
    for (int stage : {0, 3})
      for (const auto& [compute, states] : {std::pair(DType::fp16, DType::fp32), std::pair(DType::bf16, DType::bf16)}) {
        const EngineCase c{.kind = kind,
                           .stage = stage,
                           .samples = static_cast<int>(kGlobalBatch) / ranks,
                           .compute = compute,
                           .states = states,
                           .loss_scale = compute == DType::fp16 ? 4096.0F : 1.0F};
        const auto engine = test::make_engine(c, *groups.self, *groups.data);
        const auto found = test::run_steps(*engine, c, groups.data->rank(), ranks, 0, 10);
        const double tolerance = compute == DType::fp16 ? 1e-3 : 8e-3;
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_NEAR(found[i].loss, expected[i].loss, tolerance * expected[i].loss)
              << name_of(compute) << ", stage " << stage << ", step " << i;
      }
  }
}

// Stochastic rounding does not see the cut: stages 0 and 1 sum the same gradients and hold the same bits, as do 2 and
// 3.
TEST(Zero, StochasticRoundingDoesNotDependOnTheCut) {
  Groups groups;
  const int ranks = groups.data->size(), rank = groups.data->rank();
  for (OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    std::vector<std::vector<StepResult>> runs;
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineCase c{.stage = stage, .compute = DType::bf16, .states = DType::bf16, .optimizer = optimizer};
      const auto engine = test::make_engine(c, *groups.self, *groups.data);
      EXPECT_EQ(engine->memory().master, 0);
      runs.push_back(test::run_steps(*engine, c, rank, ranks, 0, 6));
    }
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(runs[0][i].loss, runs[1][i].loss) << "step " << i;
      EXPECT_EQ(runs[2][i].loss, runs[3][i].loss) << "step " << i;
    }
  }
}

// bf16 compute rounds what each stage reduces at other places; the run is the same within that rounding.
TEST(Zero, StagesAgreeInBf16) {
  Groups groups;
  const int ranks = groups.data->size();
  const std::vector<StepResult> expected = reference({.compute = DType::bf16}, *groups.self, 10);
  for (int stage = 0; stage <= 3; ++stage) {
    const EngineCase c{.stage = stage, .samples = static_cast<int>(kGlobalBatch) / ranks, .compute = DType::bf16};
    const auto engine = test::make_engine(c, *groups.self, *groups.data);
    const auto found = test::run_steps(*engine, c, groups.data->rank(), ranks, 0, 10);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].loss, expected[i].loss, 4e-3 * expected[i].loss) << "stage " << stage << ", step " << i;
      EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, 3e-2 * expected[i].grad_norm)
          << "stage " << stage << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace partita::internal
