// Frozen parameters with ZeroOptimizer: at stage 3 they are divided among the ranks.
#include <fmt/format.h>

#include "partita/module/parallelize.h"
#include "tests/module/divided_model.h"
#include "tests/module/zero_case.h"

namespace partita::internal {
namespace {

using namespace test;

// Frozen and trained layers in turn, of several sizes, and frozen parameters of every kind.
struct PartlyFrozenImpl : torch::nn::Module {
  PartlyFrozenImpl() {
    torch::manual_seed(4);
    table = register_module("table", torch::nn::Embedding(11, 15));
    for (const auto& [in, out] : {std::pair{15, 40}, {40, 7}, {7, 33}, {33, 15}})
      layers->push_back(torch::nn::Linear(in, out));
    register_module("layers", layers);
    scale = register_parameter("scale", torch::full({}, 1.5), false);
    empty = register_parameter("empty", torch::empty({0, 3}), false);
    numbers = register_parameter("numbers", torch::arange(15), false);
    half = register_parameter("half", torch::linspace(-1, 1, 15).to(torch::kBFloat16), false);
    wide = register_parameter("wide", torch::rand({2, 15}).t(), false);  // not contiguous
    table->weight.requires_grad_(false);
    for (const size_t i : {0, 2})
      for (torch::Tensor& p : layers[i]->parameters()) p.requires_grad_(false);
    diagonal = register_parameter("diagonal", wide.select(1, 0).detach(), false);  // in the memory of another one
  }
  torch::Tensor loss(const torch::Tensor& tokens) {
    torch::Tensor x = table(tokens) * scale + empty.sum() + numbers * 0.01 + half.to(torch::kFloat) + diagonal;
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return x.matmul(wide).square().mean();
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::ModuleList layers;
  torch::Tensor scale, empty, numbers, half, wide, diagonal;
};
TORCH_MODULE(PartlyFrozen);

std::vector<torch::Tensor> trained_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& p : module.parameters())
    if (p.requires_grad()) all.push_back(p);
  return all;
}

// With values that are written into frozen parameters before, between and after steps.
TEST(ZeroOptimizer, FrozenParametersAreThoseOfASingleProcess) {
  const int rank = test_world().rank(), ranks = test_world().size();
  for (const int stage : {0, 3})
    for (const int64_t unit : {int64_t{1}, int64_t{300}, int64_t{1} << 20}) {
      PartlyFrozen module, whole;
      torch::optim::AdamW reference(trained_of(*whole), torch::optim::AdamWOptions(1e-2).weight_decay(0.01));
      if (rank > 0) {
        const torch::NoGradGuard none;
        for (torch::Tensor& p : module->parameters()) p.zero_();  // rank 0's values count
      }
      ZeroOptimizer optimizer(named(*module), mesh(),
                              {.stage = stage, .learning_rate = 1e-2, .max_norm = 0, .unit_elements = unit});
      for (int64_t step = 0; step < 6; ++step) {
        if (step % 2 == 0)
          for (PartlyFrozen* m : {&module, &whole}) {
            const torch::NoGradGuard none;
            (*m)->table->weight.narrow(0, 2, 5).mul_(1.25);
            (*m)->layers[2]->as<torch::nn::Linear>()->weight.t().select(0, 1).fill_(0.5);
            (*m)->scale.add_(0.1);
            (*m)->wide.mul_(1.1);  // and diagonal
          }
        module->loss(small_samples((step * ranks + rank) * kSamples, kSamples)).backward();
        optimizer.step();
        reference.zero_grad();
        whole->loss(small_samples(step * ranks * kSamples, ranks * kSamples)).backward();
        reference.step();
      }
      const auto expected = whole->named_parameters();
      for (const auto& p : module->named_parameters()) {
        const torch::Tensor found = p.value().detach().clone(), e = expected[p.key()].detach();
        const std::string what = fmt::format("{}, stage {}, units of {}", p.key(), stage, unit);
        if (p.value().requires_grad())
          EXPECT_LE((found - e).abs().max().item<double>(), 4 * kTolerance * e.abs().max().item<double>()) << what;
        else
          EXPECT_TRUE(found.equal(e)) << what;
      }
      EXPECT_EQ(optimizer.weights().size(), 4U) << "what is trained";
      const StateDict state = optimizer.state_dict();
      EXPECT_FALSE(state.contains("table.weight"));
    }
}

// A rank has a slice of each frozen unit, and three units at most; no gradients, and no states.
TEST(ZeroOptimizer, FrozenParametersAreSlices) {
  const int64_t ranks = test_world().size(), unit = 4 * 64 * 192;
  torch::nn::Sequential model;
  for (int i = 0; i < 9; ++i) model->push_back(torch::nn::Linear(torch::nn::LinearOptions(64, 192).bias(false)));
  for (size_t i = 0; i < 8; ++i) model[i]->as<torch::nn::Linear>()->weight.requires_grad_(false);
  const ZeroOptimizer optimizer(named(*model), mesh(), {.stage = 3, .unit_elements = 64});
  EXPECT_EQ(optimizer.memory().weights, 9 * unit / ranks);
  for (int step = 0; step < 2; ++step)
    for (const torch::Tensor& p : model->parameters()) (void)p.sum();
  const ZeroOptimizer::Memory memory = optimizer.memory();
  EXPECT_EQ(memory.weights, 9 * unit / ranks + 3 * unit + unit);  // of what is trained, one unit is there
  EXPECT_EQ(memory.master, 0);
  EXPECT_EQ(memory.optimizer, 2 * unit / ranks);
}

// Where another optimizer has trained them, the frozen ones stay its own.
TEST(ZeroOptimizer, FrozenParametersOfAnotherOptimizer) {
  torch::nn::Sequential model;
  for (int i = 0; i < 2; ++i) model->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
  const auto weight = [&](size_t i) -> torch::Tensor& { return model[i]->as<torch::nn::Linear>()->weight; };
  const auto make = [&](size_t trained) {
    weight(trained).requires_grad_(true);
    weight(1 - trained).requires_grad_(false);
    return std::make_unique<ZeroOptimizer>(named(*model), mesh(), ZeroOptimizerOptions{.stage = 3});
  };
  const torch::Tensor before = weight(1).detach().clone();
  const auto first = make(0), second = make(1);
  for (const auto* optimizer : {&second, &first}) {
    weight(0).requires_grad_(optimizer == &first);
    weight(1).requires_grad_(optimizer == &second);
    model->forward(torch::ones({2, 8})).square().sum().backward();
    EXPECT_FALSE((*optimizer)->step().skipped);
  }
  EXPECT_FALSE(weight(1).detach().clone().equal(before));
}

// Divided over tensor-parallel ranks, and then over data-parallel ones.
TEST(ZeroOptimizer, FrozenParametersAreDividedTwice) {
  const int ranks = test_world().size();
  if (ranks % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  const Mesh both(test_world(), MeshLayout::Sizes{.data = ranks / 2, .tensor = 2});
  const auto make = [] {
    torch::manual_seed(3);
    DividedModel model;
    model->table->weight.requires_grad_(false);
    for (torch::Tensor& p : model->layers[0]->parameters()) p.requires_grad_(false);
    return model;
  };
  DividedModel module = make(), whole = make();
  parallelize(named(*module), both, divided_plan(/*tied=*/false, /*gather=*/true));
  const OptimizerOptions adam{.beta2 = 0.999, .epsilon = 1e-3, .weight_decay = 0.01};
  ZeroOptimizer optimizer(named(*module), both,
                          {.stage = 3, .optimizer = adam, .learning_rate = 1e-2, .max_norm = 0, .unit_elements = 500});
  torch::optim::AdamW reference(trained_of(*whole), torch::optim::AdamWOptions(1e-2).weight_decay(0.01).eps(1e-3));
  const int64_t data = both.data().size(), rank = both.data().rank();
  for (int64_t step = 0; step < 4; ++step) {
    divided_loss(module, divided_samples((step * data + rank) * 2, 2)).backward();
    optimizer.step();
    reference.zero_grad();
    divided_loss(whole, divided_samples(step * data * 2, data * 2)).backward();
    reference.step();
  }
  const auto expected = whole->named_parameters();
  for (const NamedParameter& p : optimizer.weights()) {
    const torch::Tensor e = expected[p.name].detach();
    EXPECT_LE((p.tensor - e).abs().max().item<double>(), 1e-5 * e.abs().max().item<double>()) << p.name;
  }
}

}  // namespace
}  // namespace partita::internal
