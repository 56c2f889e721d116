// The modules of tensor_modules.h are those of torch, with the same numbers.
#include "partita/module/tensor_modules.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "partita/module/zero_optimizer.h"
#include "tests/module/test_device.h"

namespace partita::internal {
namespace {

using namespace test;

constexpr int64_t kTokens = 31, kWide = 10, kInner = 22;

struct Parallel : torch::nn::Module {
  explicit Parallel(const Mesh& mesh)
      : table(kTokens, kWide, mesh),
        gate(kWide, 2 * kInner, mesh, ColumnParallelLinearImpl::Options{.parts = 2}),
        down(kInner, kWide, mesh),
        gathered(kWide, 13, mesh, ColumnParallelLinearImpl::Options{.gather = true}),
        back(13, kWide) {
    register_module("table", table);
    register_module("gate", gate);
    register_module("down", down);
    register_module("gathered", gathered);
    register_module("back", back);
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    torch::Tensor x = table(tokens);
    const auto parts = gate(x).chunk(2, -1);
    x = x + down(torch::silu(parts[0]) * parts[1]);
    return x + back(torch::tanh(gathered(x)));
  }
  torch::Tensor loss(const torch::Tensor& tokens) {
    const torch::Tensor x = forward(tokens.narrow(1, 0, 5)).flatten(0, 1);
    return vocabulary_cross_entropy(table->logits(x), tokens.narrow(1, 1, 5).reshape({-1}), table->weight, 3);
  }
  VocabularyParallelEmbedding table;
  ColumnParallelLinear gate;
  RowParallelLinear down;
  ColumnParallelLinear gathered;
  torch::nn::Linear back;
};

torch::Tensor samples(int64_t step) {
  const torch::Tensor s = torch::arange(3).unsqueeze(1) + 3 * step, i = torch::arange(6).unsqueeze(0);
  return (s * 7 + i * i * (s + 1)).remainder(kTokens);
}

// The ranks of one group are one process.
TEST(TensorModules, AreTheSingleProcessRun) {
  World& world = test_world();
  const Mesh whole(world, MeshLayout::Sizes{.data = world.size()}, test_device()),
      divided(world, {.tensor = world.size()}, test_device());
  for (const int stage : {1, 3}) {
    std::vector<double> losses;
    std::vector<NamedParameter> weights;
    for (const Mesh* mesh : {&whole, &divided}) {
      torch::manual_seed(17);
      Parallel module(*mesh);
      module.to(mesh->device());
      ZeroOptimizer optimizer(named(module), *mesh, {.stage = stage, .learning_rate = 1e-2, .unit_elements = 200});
      for (int64_t step = 0; step < 5; ++step) {
        const torch::Tensor loss = module.loss(samples(step).to(test_device()));  // the same on all ranks
        loss.backward();
        (void)optimizer.step();
        if (mesh == &whole)
          losses.push_back(loss.item<double>());
        else
          EXPECT_NEAR(loss.item<double>(), losses[static_cast<size_t>(step)], 1e-5) << "stage " << stage;
      }
      const std::vector<NamedParameter> all = optimizer.weights();
      if (mesh == &whole) {
        weights = all;
      } else {
        ASSERT_EQ(all.size(), weights.size());
        for (const NamedParameter& e : weights)
          for (const NamedParameter& p : all)
            if (p.name == e.name) {
              ASSERT_EQ(p.tensor.sizes(), e.tensor.sizes()) << p.name;
              EXPECT_LE((p.tensor - e.tensor).abs().max().item<double>(), 1e-5) << p.name << ", stage " << stage;
            }
        EXPECT_EQ(module.gate->weight.size(0), 2 * tensor_share(kInner, *mesh));
      }
    }
  }
}

// A module begins with what torch's module of these sizes draws.
TEST(TensorModules, BeginAsTorchs) {
  World& world = test_world();
  const Mesh divided(world, {.tensor = world.size()});
  torch::manual_seed(4);
  const torch::nn::Linear expected(7, 9);
  torch::manual_seed(4);
  ColumnParallelLinear column(7, 9, divided);
  torch::manual_seed(4);
  RowParallelLinear row(7, 9, divided, RowParallelLinearImpl::Options{.bias = true});
  int64_t begin = 0, columns = 0;
  for (int r = 0; r < world.rank(); ++r) {
    begin = 9 * (r + 1) / world.size();
    columns = 7 * (r + 1) / world.size();
  }
  EXPECT_TRUE(column->weight.detach().equal(expected->weight.detach().narrow(0, begin, column->weight.size(0))));
  EXPECT_TRUE(column->bias.detach().equal(expected->bias.detach().narrow(0, begin, column->bias.size(0))));
  EXPECT_TRUE(row->weight.detach().equal(expected->weight.detach().narrow(1, columns, row->weight.size(1))));
  EXPECT_TRUE(row->bias.detach().equal(expected->bias.detach()));
}

}  // namespace
}  // namespace partita::internal
