// Cases of ZeroOptimizer that show in a run only late, or not at all: half-precision sums, skipped steps, groups.
#include "partita/base/error.h"
#include "partita/module/parallelize.h"
#include "tests/module/zero_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

// In bf16 256 + 1 is 256. With stage 0 and one pass the sum is rounded once.
TEST(ZeroOptimizer, HalfPrecisionIsSummedInFp32) {
  const int rank = test_world().rank(), ranks = test_world().size();
  constexpr int64_t kElements = 4;
  for (const int stage : {0, 1, 2, 3})
    for (const int passes : {1, 300}) {
      torch::nn::ParameterList list;
      list->append(torch::zeros({kElements}, torch::TensorOptions(torch::kBFloat16).device(test_device()))
                       .set_requires_grad(true));
      ZeroOptimizer optimizer(named(*list), mesh(), {.stage = stage, .max_norm = 0, .micro_batches = passes});
      // Rank 0's gradient is 256 in the first pass, all others are 1.
      for (int p = 0; p < passes; ++p) (list[0].sum() * (rank == 0 && p == 0 ? 256 : 1)).backward();
      const double sum = 256 + static_cast<double>(ranks * passes - 1);
      const bool rounds = stage == 0 && passes == 1;
      const double kept = rounds ? static_cast<float>(c10::BFloat16(static_cast<float>(sum))) : sum;
      EXPECT_DOUBLE_EQ(optimizer.step().grad_norm, std::sqrt(kElements) * kept / ranks)
          << "stage " << stage << ", " << passes << " passes";
    }
}

// A step that is skipped is no update: moments and their correction go on as if it had not been.
TEST(ZeroOptimizer, ASkippedStepLeavesNoTrace) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::lamb, OptimizerKind::sgd})
    for (const int stage : {0, 1, 2, 3}) {
      const auto run = [&](bool skips) {
        SmallModule module(1);
        module->to(test_device());
        ZeroOptimizer optimizer(named(*module), mesh(),
                                {.stage = stage,
                                 .optimizer = {.kind = kind},
                                 .learning_rate = 1e-2,
                                 .micro_batches = 2,
                                 .unit_elements = kUnit});
        for (int64_t step = 0; step < 4; ++step) {
          for (int m = 0; m < 2; ++m)
            small_loss(module, small_samples(((2 * step + m) * ranks + rank) * kSamples, kSamples)).backward();
          optimizer.step();
          if (step != 1 || !skips) continue;
          for (int m = 0; m < 2; ++m)
            (small_loss(module, small_samples(rank, 1)) * (rank == 0 && m == 0 ? INFINITY : 1)).backward();
          EXPECT_TRUE(optimizer.step().skipped);
        }
        return optimizer.weights();
      };
      const std::vector<NamedParameter> expected = run(false), found = run(true);
      for (size_t p = 0; p < expected.size(); ++p)
        EXPECT_TRUE(found[p].tensor.equal(expected[p].tensor)) << expected[p].name << ", stage " << stage;
    }
}

// The norm is of the whole model: what is not finite in the part of one tensor-parallel rank stops all of them.
TEST(ZeroOptimizer, WhatIsNotFiniteOnOneTensorParallelRankChangesNothing) {
  const int rank = test_world().rank(), ranks = test_world().size();
  if (ranks == 1) GTEST_SKIP() << "needs two ranks";
  const Mesh tensor(test_world(), {.tensor = ranks}, test_device());
  for (const int stage : {0, 1, 2, 3}) {
    torch::manual_seed(1);
    torch::nn::Sequential model(torch::nn::Linear(6, 12), torch::nn::Linear(12, 5));
    model->to(test_device());
    parallelize(named(*model), tensor,
                {{.module = "0", .role = TensorRole::column}, {.module = "1", .role = TensorRole::row}});
    const torch::Tensor weight = model[0]->as<torch::nn::Linear>()->weight;
    if (rank == ranks - 1) weight.register_hook([](const torch::Tensor& gradient) { return gradient * NAN; });
    ZeroOptimizer optimizer(named(*model), tensor, {.stage = stage});
    const std::vector<NamedParameter> before = optimizer.weights();
    model->forward(torch::ones({2, 6}, test_device())).sum().backward();
    EXPECT_TRUE(optimizer.step().skipped) << "stage " << stage;
    const std::vector<NamedParameter> after = optimizer.weights();
    for (size_t p = 0; p < before.size(); ++p)
      EXPECT_TRUE(after[p].tensor.equal(before[p].tensor)) << before[p].name << ", stage " << stage;
  }
}

// Such as the vectors without decay of a model of which only adapters are trained.
TEST(ZeroOptimizer, GroupsMayBeEmptyOrFrozen) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int stage : {0, 1, 2, 3}) {
    SmallModule module(1);
    module->to(test_device());
    Whole whole(1e-2);
    std::vector<ParameterGroup> groups(4);
    for (ParameterGroup& group : groups) group.learning_rate = 1e-2;
    groups[1].parameters = {{"frozen", module->frozen}};
    for (const NamedParameter& p : named(*module))
      if (p.name != "frozen" && p.name != "empty") groups[2].parameters.push_back(p);
    groups[3].parameters = {{"empty", module->empty}};  // without elements
    ZeroOptimizer optimizer(groups, mesh(), {.stage = stage, .max_norm = 0, .unit_elements = kUnit});
    EXPECT_EQ(optimizer.groups(), 4U);
    for (int64_t step = 0; step < 3; ++step) {
      small_loss(module, small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
      optimizer.step();
      whole.step(
          [&] { small_loss(whole.module, small_samples(step * ranks * kSamples, ranks * kSamples)).backward(); });
    }
    expect_same(module, whole.module, kTolerance, fmt::format("stage {}", stage));
  }
}

// A tied parameter has two names: in one group it is trained once, and it cannot have the hyperparameters of two.
TEST(ZeroOptimizer, AParameterOfTwoGroupsIsNamed) {
  SmallModule module(1);
  module->to(test_device());
  std::vector<ParameterGroup> groups(2);
  groups[0].parameters = {{"first.weight", module->first->weight}, {"same.weight", module->first->weight}};
  groups[1].parameters = {{"again.weight", module->again->weight}};
  EXPECT_THAT(error_message([&] { ZeroOptimizer(groups, mesh()); }),
              HasSubstr("parameter again.weight is in two groups, expected one: put a tied parameter"));
  groups.pop_back();
  EXPECT_EQ(ZeroOptimizer(groups, mesh()).weights().size(), 1U);
}

}  // namespace
}  // namespace partita::internal
