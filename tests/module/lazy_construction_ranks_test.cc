// Modules that are constructed lazily, as ZeroOptimizer and parallelize take them.
#include "partita/module/lazy_construction.h"

#include "partita/module/lazy_storage.h"
#include "partita/module/operand_key.h"
#include "partita/module/parallelize.h"
#include "tests/module/divided_model.h"
#include "tests/module/offload_case.h"
#include "tests/module/zero_case.h"
#include "tests/support/counted_memory.h"
#include "tests/support/error_message.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

// Wide enough to be lazy, with a frozen and a tied matrix, and one of which the constructor keeps a view.
struct WideImpl : torch::nn::Module {
  WideImpl() {
    register_module("table", table);
    for (int i = 0; i < 3; ++i) layers->push_back(torch::nn::Linear(45, 45));
    register_module("layers", layers);
    register_parameter("tied", table->weight);
    frozen = register_parameter("frozen", torch::randn({45, 45}), /*requires_grad=*/false);
    kept = frozen.t();
  }
  torch::Tensor loss(int64_t sample) {
    torch::Tensor x = table(torch::arange(sample, sample + 9).remainder(31));
    for (const auto& layer : *layers) x = torch::tanh(layer->as<torch::nn::Linear>()->forward(x));
    return (x.matmul(frozen).matmul(table->weight.t())).square().mean();
  }
  torch::nn::Embedding table{31, 45};
  torch::nn::ModuleList layers;
  torch::Tensor frozen, kept;
};
TORCH_MODULE(Wide);

template <class Model>
Model seeded(int64_t seed) {
  torch::manual_seed(seed);
  return Model();
}

std::map<std::string, torch::Tensor> trained_weights(Wide& model, int stage, const Offload& offload = {}) {
  ZeroOptimizer optimizer(named(*model), mesh(),
                          {.stage = stage, .learning_rate = 1e-2, .unit_elements = 3000, .offload = offload});
  for (int64_t step = 0; step < 3; ++step) {
    model->loss(step * test_world().size() + test_world().rank()).backward();
    optimizer.step();
  }
  std::map<std::string, torch::Tensor> all{{"frozen", model->frozen.detach().clone()}};
  for (const NamedParameter& p : optimizer.weights()) all[p.name] = p.tensor;
  return all;
}

// Also of the values of rank 0 where the ranks' seeds differ.
TEST(LazyConstruction, TrainsLikeAnOrdinaryOne) {
  const int rank = test_world().rank();
  for (const int stage : {0, 1, 2, 3}) {
    Wide eager = seeded<Wide>(1), lazy = construct_lazily([&] { return seeded<Wide>(1 + rank); });
    EXPECT_TRUE(is_lazy(lazy->frozen) && is_lazy(lazy->table->weight));
    const auto expected = trained_weights(eager, stage), found = trained_weights(lazy, stage);
    ASSERT_EQ(found.size(), 8U);
    for (const auto& [name, values] : expected) EXPECT_TRUE(found.at(name).equal(values)) << name << ", " << stage;
    EXPECT_EQ(has_operand_key(lazy->table->weight), stage == 3) << "operations are no slower than usual";
  }
}

TEST(LazyConstruction, GoesToHostMemoryAndDisk) {
  const TemporaryDirectory folder;
  for (const int stage : {0, 1, 2, 3})
    for (const Share& share : kShares) {
      Wide eager = seeded<Wide>(1), lazy = construct_lazily([] { return seeded<Wide>(1); });
      const auto expected = trained_weights(eager, stage);
      const auto found = trained_weights(lazy, stage, offload_of(share, folder.path(), 3));
      for (const auto& [name, values] : expected)
        EXPECT_TRUE(found.at(name).equal(values)) << name << ", " << stage << ", " << share.host << ", " << share.disk;
    }
}

// What a rank has beside the optimizer's own memory is a few parameters at any time, not the model.
TEST(LazyConstruction, OneParameterIsWholeAtATime) {
  constexpr int64_t kMatrix = 4 * 256 * 256, kLayers = 32;
  for (const bool lazily : {true, false})
    for (const int stage : {1, 3}) {
      const CountedMemory counted;
      const auto make = [] {
        torch::nn::Sequential layers;
        for (int i = 0; i < kLayers; ++i)
          layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(256, 256).bias(false)));
        return layers;
      };
      const torch::nn::Sequential model = lazily ? construct_lazily(make) : make();
      const ZeroOptimizer optimizer(
          named(*model), mesh(),
          {.stage = stage, .optimizer = {.kind = OptimizerKind::sgd, .momentum = 0}, .unit_elements = 1});
      const ZeroOptimizer::Memory m = optimizer.memory();
      const int64_t ranks = test_world().size();
      const int64_t slices = stage == 3 || ranks > 1 ? kLayers * kMatrix / ranks : 0;  // not before a backward pass
      const int64_t own = m.weights + m.gradients + m.master + m.optimizer - slices, extra = counted.peak() - own;
      if (lazily)
        EXPECT_LE(extra, 4 * kMatrix) << stage;
      else
        EXPECT_GE(extra, kLayers * kMatrix / 2) << stage;
    }
}

// The same in memory of the process, in which what is freed may stay.
TEST(LazyConstruction, TheModelIsNeverResident) {
  constexpr int64_t kMebibyte = 1 << 20, kModel = 64 * kMebibyte;
  const ResidentMemory resident;
  const torch::nn::Sequential model = construct_lazily([] {
    torch::nn::Sequential layers;
    for (int i = 0; i < 16; ++i) layers->push_back(torch::nn::Linear(torch::nn::LinearOptions(1024, 1024).bias(false)));
    return layers;
  });
  EXPECT_LE(resident.growth(), kModel / 4) << "constructed";
  const ZeroOptimizer optimizer(
      named(*model), mesh(),
      {.stage = 3, .optimizer = {.kind = OptimizerKind::sgd, .momentum = 0}, .unit_elements = 1});
  const ZeroOptimizer::Memory m = optimizer.memory();
  const int64_t slices = kModel / test_world().size();  // of gradients: not before a backward pass
  EXPECT_LE(resident.growth() - (m.weights + m.gradients + m.master + m.optimizer - slices), 3 * kModel / 8)
      << "divided";
}

TEST(LazyConstruction, IsDividedOverTensorParallelRanks) {
  const int ranks = test_world().size();
  const Mesh all(test_world(), MeshLayout::Sizes{.data = 1, .tensor = ranks});
  for (const int stage : {1, 3}) {
    DividedModel eager = seeded<DividedModel>(1);
    DividedModel lazy = construct_lazily([] { return seeded<DividedModel>(1 + test_world().rank()); });
    EXPECT_TRUE(is_lazy(lazy->layers[0]->as<DividedLayer>()->qkv->weight));
    std::vector<std::vector<NamedParameter>> weights;
    for (DividedModel* model : {&eager, &lazy}) {
      parallelize(named(**model), all, divided_plan(/*tied=*/false, /*gather=*/true));
      ZeroOptimizer optimizer(named(**model), all, {.stage = stage, .learning_rate = 1e-2, .unit_elements = 500});
      for (int64_t step = 0; step < 2; ++step) {
        divided_loss(*model, divided_samples(step * 2, 2)).backward();
        optimizer.step();
      }
      weights.push_back(optimizer.weights());
    }
    for (size_t p = 0; p < weights[0].size(); ++p)
      EXPECT_TRUE(weights[0][p].tensor.equal(weights[1][p].tensor)) << weights[0][p].name;
  }
}

TEST(LazyConstruction, EndsBeforeItsModulesAreTaken) {
  const LazyConstruction lazy;
  Wide model;
  EXPECT_THAT(error_message([&] { const ZeroOptimizer optimizer(named(*model), mesh()); }),
              HasSubstr("called within the life of a LazyConstruction, expected after it: end its scope before"));
  EXPECT_THAT(error_message([&] { parallelize(named(*model), mesh(), {}); }),
              HasSubstr("parallelize: called within the life of a LazyConstruction"));
}

TEST(LazyConstruction, SharedMemoryIsAnError) {
  torch::nn::Sequential model = construct_lazily([] { return torch::nn::Sequential(torch::nn::Linear(40, 40)); });
  std::vector<NamedParameter> parameters = named(*model);
  const torch::Tensor whole = parameters[0].tensor.detach();
  parameters.push_back({"lower", whole.narrow(0, 20, 20).requires_grad_()});
  EXPECT_THAT(error_message([&] { const ZeroOptimizer optimizer(parameters, mesh()); }),
              HasSubstr("parameters 0.weight and lower share memory"));
  parameters[0].tensor = whole.narrow(0, 0, 20).requires_grad_();
  parameters.erase(parameters.begin() + 1);  // the bias
  const ZeroOptimizer optimizer(parameters, mesh());
}

}  // namespace
}  // namespace partita::internal
