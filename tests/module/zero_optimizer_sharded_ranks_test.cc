// ZeroOptimizer with stage 3: weights are there where a program reads them.
#include <ATen/ops/_foreach_norm.h>

#include <sstream>

#include "partita/base/error.h"
#include "tests/module/zero_case.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

// Whatever a program does with parameters of which a rank has a slice: views that it keeps, reads between steps, copies
// of all, and operations on many at once.
TEST(ZeroOptimizer, ShardedWeightsAreThereWhereTheyAreRead) {
  const int rank = test_world().rank(), ranks = test_world().size();
  SmallModule module(1 + rank);
  module->to(test_device());
  Whole whole(1e-2);
  ZeroOptimizer optimizer(named(*module), mesh(),
                          {.stage = 3, .learning_rate = 1e-2, .max_norm = 0, .unit_elements = kUnit});
  const torch::Tensor kept = module->first->weight.t();
  for (int64_t step = 0; step < 4; ++step) {
    const torch::Tensor bytes = torch::cat({module->last->weight.detach().flatten(), module->unused.detach()}, 0);
    EXPECT_EQ(bytes.numel(), module->last->weight.numel() + 13);
    small_loss(module, small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
    optimizer.step();
    whole.step([&] { small_loss(whole.module, small_samples(step * ranks * kSamples, ranks * kSamples)).backward(); });
    EXPECT_LE((kept.detach() - whole.module->first->weight.detach().t()).abs().max().item<double>(), kTolerance);
    const auto norms = at::_foreach_norm(module->parameters());  // of all units at once
    const torch::Tensor scale = whole.module->scale.detach();
    EXPECT_NEAR(norms[0].item<double>(), scale.abs().item<double>(), kTolerance) << "of the first parameter";
  }
  // A pass for some of the parameters.
  std::vector<torch::Tensor> some;
  for (const torch::Tensor& p : module->first->parameters()) some.push_back(p);
  small_loss(module, small_samples(rank, 2)).backward({}, std::nullopt, false, some);
  optimizer.zero_grad();
  const std::vector<NamedParameter> copies = optimizer.weights();
  EXPECT_EQ(copies.size(), trained(whole.module).size());
  const auto expected = whole.module->named_parameters();
  for (const NamedParameter& copy : copies) {
    if (copy.tensor.numel() == 0) continue;
    EXPECT_LE((copy.tensor - expected[copy.name].detach()).abs().max().item<double>(), 1e-5) << copy.name;
  }
}

// Values written before the first step and between steps, also through views, are those of all later steps.
TEST(ZeroOptimizer, ShardedWeightsTakeWhatIsWritten) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const torch::ScalarType type : {torch::kFloat, torch::kBFloat16}) {
    SmallModule module(1);
    module->to(test_device());
    Whole whole(1e-3);
    module->to(type);
    ZeroOptimizer optimizer(named(*module), mesh(),
                            {.stage = 3, .learning_rate = 1e-3, .max_norm = 0, .unit_elements = kUnit});
    const auto write = [](SmallModule& to) {
      torch::NoGradGuard none;
      to->first->weight.mul_(2);
      to->last->weight.narrow(0, 3, 5).fill_(0.125);
      to->embedding->weight.detach().t().add_(0.25);
    };
    for (int64_t step = 0; step < 6; ++step) {
      if (step % 3 == 0) write(module), write(whole.module);
      small_loss(module, small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
      optimizer.step();
      whole.step(
          [&] { small_loss(whole.module, small_samples(step * ranks * kSamples, ranks * kSamples)).backward(); });
    }
    expect_same(module, whole.module, type == torch::kFloat ? kTolerance : 0.02, c10::toString(type));
  }
}

// Units of the same size that are gathered one for another.
TEST(ZeroOptimizer, ShardedWeightsInAnotherOrderAreAnError) {
  const int rank = test_world().rank(), ranks = test_world().size();
  if (ranks == 1) GTEST_SKIP() << "needs two ranks";
  torch::nn::Sequential model;
  for (int i = 0; i < 2; ++i) model->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
  ZeroOptimizer optimizer(named(*model), mesh(), {.stage = 3, .unit_elements = 64});
  const auto layer = [&](int i) { return model[static_cast<size_t>(rank == ranks - 1 ? 1 - i : i)]; };
  torch::Tensor x = torch::ones({2, 8});
  for (int i = 0; i < 2; ++i) x = layer(i)->as<torch::nn::Linear>()->forward(x);
  x.sum().backward();
  EXPECT_THAT(error_message([&] { optimizer.step(); }), HasSubstr("ranks used the parameters in different orders"));
}

// An operation on all of them leaves no more memory behind than is needed otherwise.
TEST(ZeroOptimizer, ShardedWeightsOfManyUnitsLeave) {
  torch::nn::Sequential model;
  for (int i = 0; i < 8; ++i) model->push_back(torch::nn::Linear(torch::nn::LinearOptions(64, 192).bias(false)));
  ZeroOptimizer optimizer(named(*model), mesh(), {.stage = 3, .unit_elements = 64});
  EXPECT_EQ(at::_foreach_norm(model->parameters()).size(), 8U);
  const int64_t unit = 4 * 64 * 192;
  EXPECT_EQ(optimizer.memory().weights, 8 * unit / test_world().size() + 3 * unit);
}

// torch::save would write nothing in place of the values.
TEST(ZeroOptimizer, ShardedWeightsAreNotReadByTheirAddress) {
  SmallModule module(1);
  ZeroOptimizer optimizer(named(*module), mesh(), {.stage = 3, .unit_elements = 1});
  (void)module->first->weight.sum();
  for (const torch::Tensor& p : {module->last->weight, module->frozen}) {
    std::ostringstream file;
    for (const auto& read :
         std::vector<std::function<void()>>{[&] { (void)p.data_ptr<float>(); }, [&] { torch::save(p, file); }})
      try {
        read();
        ADD_FAILURE() << "read";
      } catch (const c10::Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("save what weights() or clone() returns"));
      }
  }
  std::ostringstream file;
  EXPECT_ANY_THROW(torch::save(module, file));
}

TEST(ZeroOptimizer, ShardedWeightsEndWithTheirOptimizer) {
  SmallModule module(1);
  module->to(test_device());
  { ZeroOptimizer optimizer(named(*module), mesh(), {.stage = 3}); }
  EXPECT_THAT(error_message([&] { (void)module->last->weight.sum(); }),
              HasSubstr("is used after the optimizer, which held its values"));
}

}  // namespace
}  // namespace partita::internal
