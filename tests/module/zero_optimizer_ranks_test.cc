// ZeroOptimizer is PyTorch's single process, at every stage and number of ranks.
#include "partita/base/error.h"
#include "tests/module/zero_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

struct Kind {
  std::string name;
  OptimizerOptions ours;
  double learning_rate;
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> torchs;
};

// Rates at which the norm falls smoothly: at 1e-2 AdamW makes of one rounding, which differs from processor to
// processor, a hundred in ten steps.
std::vector<Kind> kinds() {
  return {{"adamw",
           {.beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1},
           1e-3,
           [](const auto& p) {
             return std::make_unique<torch::optim::AdamW>(
                 p, torch::optim::AdamWOptions(1e-3).betas({0.8, 0.95}).weight_decay(0.1));
           }},
          {"sgd", {.kind = OptimizerKind::sgd, .momentum = 0.9, .weight_decay = 0.01}, 2e-3, [](const auto& p) {
             return std::make_unique<torch::optim::SGD>(
                 p, torch::optim::SGDOptions(2e-3).momentum(0.9).weight_decay(0.01));
           }}};
}

struct Reference {
  SmallModule module{1};
  std::vector<double> norms;
};

// One process with all samples. micro_batches: of a step; accumulated as means, as users do.
Reference reference(const Kind& kind, int micro_batches, double max_norm, int64_t steps) {
  Reference r;
  std::vector<torch::Tensor> parameters = trained(r.module);
  // What has no gradient is not decayed by torch, but its gradient is zero for ours.
  for (const torch::Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
  const auto optimizer = kind.torchs(parameters);
  const int64_t samples = kSamples * test_world().size();
  for (int64_t step = 0; step < steps; ++step) {
    for (const torch::Tensor& p : parameters) p.mutable_grad().zero_();
    for (int m = 0; m < micro_batches; ++m)
      (small_loss(r.module, small_samples((step * micro_batches + m) * samples, samples)) / micro_batches).backward();
    double squares = 0;
    for (const torch::Tensor& p : parameters) squares += p.grad().to(torch::kDouble).square().sum().item<double>();
    r.norms.push_back(std::sqrt(squares));
    if (max_norm > 0) torch::nn::utils::clip_grad_norm_(parameters, max_norm);
    optimizer->step();
  }
  return r;
}

// Of one process with all samples, in fp64, that has the weights of `module` at this step.
double norm_in_fp64(SmallModule& module, int64_t step, int micro_batches) {
  SmallModule whole(1);
  whole->to(torch::kDouble);
  {
    const torch::NoGradGuard none;
    const auto values = module->named_parameters();
    for (const auto& item : whole->named_parameters()) item.value().copy_(values[item.key()]);
  }
  const int64_t samples = kSamples * test_world().size();
  for (int m = 0; m < micro_batches; ++m)
    (small_loss(whole, small_samples((step * micro_batches + m) * samples, samples)) / micro_batches).backward();
  double squares = 0;
  for (const torch::Tensor& p : trained(whole))
    if (p.grad().defined()) squares += p.grad().square().sum().item<double>();
  return std::sqrt(squares);
}

// Norms are those of fp64 at the same weights. Those of two runs in fp32 differ by more than their weights do, because
// the norm changes faster than the weights.
constexpr double kNormOfAnotherRun = 2;  // in tolerances

TEST(ZeroOptimizer, IsTheSingleProcessRun) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const Kind& kind : kinds())
    for (const int micro_batches : {1, 3})
      for (const double max_norm : {0.0, 0.3}) {
        Reference expected = reference(kind, micro_batches, max_norm, 10);
        if (max_norm > 0) {
          EXPECT_GT(expected.norms[0], max_norm);  // clips
        }
        for (const int stage : {0, 1, 2, 3})
          for (const bool overlap : {true, false}) {
            const std::string what = fmt::format("{}, {} passes, norm {}, stage {}, overlap {}", kind.name,
                                                 micro_batches, max_norm, stage, overlap);
            SmallModule module(1 + rank);  // rank 0's weights count
            module->to(test_device());
            ZeroOptimizer optimizer(named(*module), mesh(),
                                    {.stage = stage,
                                     .optimizer = kind.ours,
                                     .learning_rate = kind.learning_rate,
                                     .max_norm = max_norm,
                                     .micro_batches = micro_batches,
                                     .overlap = overlap,
                                     .unit_elements = kUnit});
            for (int64_t step = 0; step < 10; ++step) {
              optimizer.zero_grad();
              module->zero_grad();
              const double in_fp64 = step % 9 == 0 ? norm_in_fp64(module, step, micro_batches) : 0;
              for (int m = 0; m < micro_batches; ++m) {
                const int64_t first = ((step * micro_batches + m) * ranks + rank) * kSamples;
                (small_loss(module, small_samples(first, kSamples)) / micro_batches).backward();
              }
              const ZeroStep r = optimizer.step();
              EXPECT_FALSE(r.skipped);
              const double other_run = expected.norms[static_cast<size_t>(step)];
              EXPECT_NEAR(r.grad_norm, other_run, kNormOfAnotherRun * kTolerance * other_run)
                  << what << ", step " << step;
              if (step % 9 == 0) {
                EXPECT_NEAR(r.grad_norm, in_fp64, kTolerance * in_fp64) << what << ", step " << step;
              }
            }
            expect_same(module, expected.module, kTolerance, what);
          }
      }
}

// A pass whose gradients come in another order on each rank, or not at all.
TEST(ZeroOptimizer, RanksMayUseOtherParameters) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int stage : {0, 1, 2}) {
    SmallModule module(1);
    module->to(test_device());
    Whole whole(1e-2);
    const auto loss = [&](SmallModule& m, int of_rank) {
      // Even ranks use the head alone, odd ones the first layer alone.
      const torch::Tensor x = torch::full({2, 9}, 0.1 * (of_rank + 1)), y = torch::full({2, 15}, 0.2 * (of_rank + 1));
      return of_rank % 2 == 0 ? m->last(x).square().mean() : m->first(y).square().mean();
    };
    ZeroOptimizer optimizer(named(*module), mesh(),
                            {.stage = stage, .learning_rate = 1e-2, .max_norm = 0, .unit_elements = kUnit});
    for (int step = 0; step < 4; ++step) {
      loss(module, rank).backward();
      optimizer.step();
      whole.step([&] {
        for (int r = 0; r < ranks; ++r) (loss(whole.module, r) / ranks).backward();
      });
    }
    expect_same(module, whole.module, kTolerance, fmt::format("stage {}", stage));
  }
}

TEST(ZeroOptimizer, AStepMayHaveFewerPassesAndPassesMayBeDropped) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int stage : {0, 1, 2, 3}) {
    SmallModule module(1);
    module->to(test_device());
    Whole whole(1e-2);
    ZeroOptimizer optimizer(
        named(*module), mesh(),
        {.stage = stage, .learning_rate = 1e-2, .max_norm = 0, .micro_batches = 4, .unit_elements = kUnit});
    const auto pass = [&](int64_t number) {
      small_loss(module, small_samples((number * ranks + rank) * kSamples, kSamples)).backward();
    };
    for (const int passes : {4, 2, 1, 3}) {
      pass(90);
      pass(91);
      optimizer.zero_grad();
      for (int p = 0; p < passes; ++p) pass(p);
      optimizer.step();
      whole.step([&] {
        for (int p = 0; p < passes; ++p)
          small_loss(whole.module, small_samples(p * ranks * kSamples, ranks * kSamples)).backward();
      });
    }
    expect_same(module, whole.module, kTolerance, fmt::format("stage {}", stage));
  }
}

TEST(ZeroOptimizer, GroupsHaveRatesAndDecayOfTheirOwn) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int stage : {0, 1, 2, 3}) {
    SmallModule module(1), whole(1);
    module->to(test_device());
    const auto is_matrix = [](const torch::Tensor& p) { return p.dim() > 1; };
    std::vector<ParameterGroup> groups(2);
    groups[0].optimizer.weight_decay = 0.2, groups[1].optimizer.weight_decay = 0;
    groups[0].learning_rate = 1e-2, groups[1].learning_rate = 3e-2;
    for (const NamedParameter& p : named(*module)) groups[is_matrix(p.tensor) ? 0 : 1].parameters.push_back(p);
    ZeroOptimizer optimizer(groups, mesh(), {.stage = stage, .max_norm = 0, .unit_elements = kUnit});
    std::vector<torch::Tensor> matrices, vectors;
    for (const torch::Tensor& p : trained(whole)) {
      p.mutable_grad() = torch::zeros_like(p);
      (is_matrix(p) ? matrices : vectors).push_back(p);
    }
    torch::optim::AdamW of_matrices(matrices, torch::optim::AdamWOptions(1e-2).weight_decay(0.2)),
        of_vectors(vectors, torch::optim::AdamWOptions(3e-2).weight_decay(0));
    for (int64_t step = 0; step < 6; ++step) {
      if (step == 3) {
        optimizer.set_learning_rate(1, 1e-3);
        static_cast<torch::optim::AdamWOptions&>(of_vectors.param_groups()[0].options()).lr(1e-3);
      }
      small_loss(module, small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
      optimizer.step();
      of_matrices.zero_grad(false), of_vectors.zero_grad(false);
      small_loss(whole, small_samples(step * ranks * kSamples, ranks * kSamples)).backward();
      of_matrices.step(), of_vectors.step();
    }
    EXPECT_EQ(optimizer.learning_rate(1), 1e-3);
    expect_same(module, whole, kTolerance, fmt::format("stage {}", stage));
  }
}

// bf16 parameters with fp32 master weights follow fp32; what the user writes into parameters between steps goes on.
TEST(ZeroOptimizer, HalfPrecisionHasMasterWeights) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int stage : {0, 1, 2, 3}) {
    SmallModule module(1);
    module->to(test_device());
    Whole whole(1e-3);
    module->to(torch::kBFloat16);
    ZeroOptimizer optimizer(named(*module), mesh(), {.stage = stage, .learning_rate = 1e-3, .max_norm = 0});
    for (int64_t step = 0; step < 20; ++step) {
      if (step == 10) {
        torch::NoGradGuard none;
        module->last->weight.fill_(0.25);
        whole.module->last->weight.fill_(0.25);
      }
      small_loss(module, small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
      optimizer.step();
      whole.step(
          [&] { small_loss(whole.module, small_samples(step * ranks * kSamples, ranks * kSamples)).backward(); });
    }
    const torch::Tensor moved = whole.module->last->weight.detach() - 0.25;
    EXPECT_GT(moved.abs().max().item<double>(), 2e-3);
    expect_same(module, whole.module, 0.02, fmt::format("stage {}", stage));
  }
}

TEST(ZeroOptimizer, WhatIsNotFiniteOnOneRankChangesNothing) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int stage : {0, 1, 2, 3}) {
    SmallModule module(1);
    module->to(test_device());
    ZeroOptimizer optimizer(named(*module), mesh(), {.stage = stage, .unit_elements = kUnit});
    const torch::Tensor before = module->last->weight.detach().clone();
    const torch::Tensor loss = small_loss(module, small_samples(rank, 1));
    (rank == ranks - 1 ? loss * INFINITY : loss).backward();
    EXPECT_TRUE(optimizer.step().skipped);
    EXPECT_TRUE(torch::equal(module->last->weight, before));
    small_loss(module, small_samples(rank, 1)).backward();
    EXPECT_FALSE(optimizer.step().skipped);
    EXPECT_FALSE(torch::equal(module->last->weight, before));
  }
}

// ZeRO's formulas for fp32 with AdamW: weights 4P, or 4P / N and three units; gradients 4P, or 4P / N and two units;
// states 8P / N.
TEST(ZeroOptimizer, MemoryIsDivided) {
  const int64_t ranks = test_world().size(), unit = 4096;
  for (const int stage : {0, 1, 2, 3}) {
    torch::nn::Sequential module;
    for (int i = 0; i < 8; ++i)
      module->push_back(
          torch::nn::Linear(torch::nn::LinearOptions(i % 2 == 0 ? 64 : 192, i % 2 == 0 ? 192 : 64).bias(false)));
    const int64_t elements = 8 * 64 * 192, shard = stage == 0 ? 1 : ranks;
    ZeroOptimizer optimizer(named(*module), mesh(), {.stage = stage, .unit_elements = unit});
    for (int step = 0; step < 3; ++step) {
      module->forward(torch::ones({2, 64})).sum().backward();
      optimizer.step();
    }
    const ZeroOptimizer::Memory m = optimizer.memory();
    EXPECT_EQ(m.weights, stage == 3 ? 4 * elements / ranks + 3 * 4 * 64 * 192 : 4 * elements);
    EXPECT_EQ(m.master, 0);
    EXPECT_EQ(m.optimizer, 8 * elements / shard);
    const int64_t own = stage == 0 || ranks == 1 ? 0 : 4 * elements / ranks;
    if (stage >= 2)
      EXPECT_EQ(m.gradients, 4 * elements / ranks + 2 * 4 * 64 * 192);
    else
      EXPECT_EQ(m.gradients, 4 * elements + own);
  }
}

TEST(ZeroOptimizer, WrongUseIsNamed) {
  const auto of = [](SmallModule& module, const ZeroOptimizerOptions& options = {}) {
    return error_message([&] { ZeroOptimizer(named(*module), mesh(), options); });
  };
  SmallModule module(1);
  module->to(test_device());
  EXPECT_THAT(error_message([&] {
                ZeroOptimizer(std::vector<NamedParameter>{{"w", {}}}, mesh());
              }),
              HasSubstr("parameter w is undefined"));
  EXPECT_THAT(error_message([&] {
                ZeroOptimizer(std::vector<NamedParameter>{{"w", module->scale * 2}}, mesh());
              }),
              HasSubstr("w is not a parameter, but the result of an operation"));
  EXPECT_THAT(error_message([&] {
                std::vector<ParameterGroup> groups(2);
                groups[0].parameters = {{"0.weight", module->last->weight}};
                groups[1].parameters = {{"0.weight", module->first->weight}};
                ZeroOptimizer(groups, mesh());
              }),
              HasSubstr("two parameters are called 0.weight"));
  EXPECT_THAT(of(module, {.stage = 4}), HasSubstr("stage 4, expected 0, 1, 2 or 3"));
  EXPECT_THAT(of(module, {.micro_batches = 0}), HasSubstr("micro_batches 0, expected at least 1"));
  EXPECT_THAT(of(module, {.optimizer_dtype = DType::bf16}), HasSubstr("optimizer_dtype bf16"));
  {
    SmallModule doubles(1);
    doubles->to(torch::kDouble);
    EXPECT_THAT(of(doubles), HasSubstr("is Double, expected fp32, bf16 or fp16"));
  }
  {
    SmallModule shared(1);
    shared->to(test_device());
    shared->unused.set_data(shared->last->weight.detach().flatten().narrow(0, 2, 13));
    EXPECT_THAT(of(shared), HasSubstr("share memory"));
  }
  {
    SmallModule frozen(1);
    for (torch::Tensor& p : frozen->parameters()) p.requires_grad_(false);
    EXPECT_THAT(of(frozen), HasSubstr("no parameter requires a gradient"));
  }
  ZeroOptimizer optimizer(named(*module), mesh(), {.stage = 1});
  EXPECT_THAT(of(module), HasSubstr("belongs to another ZeroOptimizer"));
  EXPECT_THAT(error_message([&] { optimizer.step(); }), HasSubstr("step without a backward pass"));
  const auto backward = [&] { small_loss(module, small_samples(0, 1)).backward(); };
  backward();
  EXPECT_THAT(error_message(backward), HasSubstr("a backward pass too many, expected 1"));
  optimizer.zero_grad();
  backward();
  module->last->weight.mutable_grad() = torch::ones_like(module->last->weight);
  EXPECT_THAT(error_message([&] { optimizer.step(); }),
              HasSubstr("last.weight has a gradient that did not come from backward"));
  optimizer.zero_grad();
  module->last->weight.set_data(module->last->weight.detach().clone());
  backward();
  EXPECT_THAT(error_message([&] { optimizer.step(); }), HasSubstr("the memory of parameter last.weight was exchanged"));
}

TEST(ZeroOptimizer, SparseGradientsAreNamed) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(7, 3).sparse(true));
  const ZeroOptimizer optimizer(named(*table), mesh());
  const torch::Tensor ids = torch::arange(4);
  EXPECT_THAT(error_message([&] { table(ids).sum().backward(); }),
              HasSubstr("a gradient of parameter weight is sparse"));
}

// Also of frozen parameters, which are sent, too.
TEST(ZeroOptimizer, RanksWithOtherModelsAreNamed) {
  const int ranks = test_world().size();
  if (ranks == 1) GTEST_SKIP() << "needs two ranks";
  const bool is_last = test_world().rank() == ranks - 1;
  for (const bool frozen : {false, true}) {
    torch::nn::Sequential model(torch::nn::Linear(4, 2), torch::nn::Linear(2, is_last ? 3 : 2));
    if (frozen)
      for (torch::Tensor& p : model[1]->parameters()) p.requires_grad_(false);
    EXPECT_THAT(error_message([&] { ZeroOptimizer(named(*model), mesh()); }),
                HasSubstr(fmt::format("the parameters of rank {} are not those of rank 0", ranks - 1)));
  }
  SmallModule module(1);
  module->to(test_device());
  const Mesh context(test_world(), {.context = ranks});
  EXPECT_THAT(error_message([&] { ZeroOptimizer(named(*module), context); }),
              HasSubstr("a mesh with context parallelism, expected data, tensor and pipeline"));
}

TEST(ZeroOptimizer, AModelOutlivesItsOptimizer) {
  SmallModule module(1);
  module->to(test_device());
  { ZeroOptimizer optimizer(named(*module), mesh()); }
  small_loss(module, small_samples(0, 1)).backward();
  EXPECT_TRUE(module->last->weight.grad().defined());
  ZeroOptimizer again(named(*module), mesh());
  module->zero_grad();
  small_loss(module, small_samples(0, 1)).backward();
  EXPECT_FALSE(again.step().skipped);
}

}  // namespace
}  // namespace partita::internal
