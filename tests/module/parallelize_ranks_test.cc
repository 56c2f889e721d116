// Modules that parallelize divides are those of one process.
#include "partita/module/parallelize.h"

#include <gmock/gmock.h>

#include <map>

#include "partita/base/error.h"
#include "partita/module/recompute.h"
#include "partita/module/zero_optimizer.h"
#include "tests/module/divided_model.h"
#include "tests/module/test_device.h"
#include "tests/support/error_message.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

constexpr double kTolerance = 1e-5;
constexpr int64_t kSamples = 2, kSteps = 5;  // samples of a data-parallel rank and a pass

// The bias of keys has no gradient but rounding, which a smaller epsilon would scale up.
constexpr OptimizerOptions kAdam{.beta2 = 0.999, .epsilon = 1e-3, .weight_decay = 0.01};

// All divisions of the ranks into tensor and data parallelism.
const std::vector<Mesh*>& meshes() {
  static const std::vector<Mesh*> all = [] {
    std::vector<Mesh*> made;
    const int ranks = test_world().size();
    for (int tensor = 1; tensor <= ranks; ++tensor)
      if (ranks % tensor == 0)
        made.push_back(&KeptMeshes::keep(std::make_unique<Mesh>(
            test_world(), MeshLayout::Sizes{.data = ranks / tensor, .tensor = tensor}, test_device())));
    return made;
  }();
  return all;
}

struct Trained {
  std::vector<double> losses, norms;
  std::map<std::string, torch::Tensor> weights;
};

// One process with the samples of all data-parallel ranks.
Trained reference(bool tied, int64_t samples, int passes) {
  torch::manual_seed(3);
  DividedModel model(tied);
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& p : model->parameters())
    if (p.requires_grad()) trained.push_back(p);
  torch::optim::AdamW optimizer(trained, torch::optim::AdamWOptions(1e-2).weight_decay(0.01).eps(1e-3));
  Trained run;
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    double loss = 0;
    for (int p = 0; p < passes; ++p) {
      const torch::Tensor l = divided_loss(model, divided_samples((step * passes + p) * samples, samples)) / passes;
      l.backward();
      loss += l.item<double>();
    }
    run.losses.push_back(loss);
    run.norms.push_back(torch::nn::utils::clip_grad_norm_(trained, 0.5));
    optimizer.step();
  }
  for (const auto& p : model->named_parameters()) run.weights[p.key()] = p.value().detach();
  return run;
}

void expect_same(const std::vector<NamedParameter>& found, const Trained& expected, const std::string& what) {
  size_t compared = 0;
  for (const NamedParameter& p : found) {
    const torch::Tensor& e = expected.weights.at(p.name);
    ASSERT_EQ(p.tensor.sizes(), e.sizes()) << what << ", " << p.name;
    EXPECT_LE((p.tensor - e).abs().max().item<double>(), kTolerance * e.abs().max().item<double>())
        << what << ", " << p.name;
    ++compared;
  }
  EXPECT_EQ(compared + 1, expected.weights.size());  // frozen is not trained
}

TEST(Parallelize, IsTheSingleProcessRun) {
  for (const Mesh* mesh : meshes())
    for (const bool tied : {false, true})
      for (const int stage : {0, 1, 2, 3}) {
        const bool gather = (stage < 2) == tied;
        const int passes = stage % 2 == 0 ? 1 : 2, data = mesh->data().size();
        const std::string what =
            fmt::format("tensor {}, tied {}, gather {}, stage {}", mesh->tensor().size(), tied, gather, stage);
        const Trained expected = reference(tied, kSamples * data, passes);
        torch::manual_seed(test_world().rank() == 0 ? 3 : 4);  // rank 0's weights count
        DividedModel model(tied);
        model->to(mesh->device());
        parallelize(named(*model), *mesh, divided_plan(tied, gather));
        ZeroOptimizer optimizer(named(*model), *mesh,
                                {.stage = stage,
                                 .optimizer = kAdam,
                                 .learning_rate = 1e-2,
                                 .max_norm = 0.5,
                                 .micro_batches = passes,
                                 .unit_elements = 500});
        for (int64_t step = 0; step < kSteps; ++step) {
          torch::Tensor loss = torch::zeros({1});
          for (int p = 0; p < passes; ++p) {
            const torch::Tensor samples =
                divided_samples(((step * passes + p) * data + mesh->data().rank()) * kSamples, kSamples)
                    .to(mesh->device());
            const torch::Tensor l =
                (gather ? divided_loss(model, samples)
                        : vocabulary_cross_entropy(model->logits(samples.narrow(1, 0, kLong)).flatten(0, 1),
                                                   samples.narrow(1, 1, kLong).reshape({-1}), model->head_weight())) /
                passes;
            l.backward();
            loss += l.detach().cpu();
          }
          CpuStream stream;
          mesh->data().all_reduce(loss, Reduce::sum, stream).wait();
          EXPECT_NEAR(loss.item<double>() / data, expected.losses[static_cast<size_t>(step)], kTolerance) << what;
          const double norm = expected.norms[static_cast<size_t>(step)];
          EXPECT_NEAR(optimizer.step().grad_norm, norm, kTolerance * norm) << what << ", step " << step;
        }
        expect_same(optimizer.weights(), expected, what);
      }
}

// A rank keeps its part of what is divided, and of its states.
TEST(Parallelize, DividesBytes) {
  for (const Mesh* mesh : meshes()) {
    DividedModel model;
    model->to(mesh->device());
    const int ranks = mesh->tensor().size();
    int64_t whole = 0;
    for (const torch::Tensor& p : model->layers->parameters()) whole += p.numel();
    parallelize(named(*model), *mesh, divided_plan(false, true));
    const auto of_rank = [&](int64_t count) { return tensor_share(count, *mesh); };
    const int64_t head_rows = of_rank(kHeads) * kHead, inner = of_rank(kInner), norms = 2 * (kWide + kHead);
    int64_t held = 0;
    for (const torch::Tensor& p : model->layers->parameters()) held += p.numel();
    EXPECT_EQ(held, 2 * (3 * head_rows * (kWide + 1) + kWide * head_rows + kWide + inner * (kWide + 1) + kWide * inner +
                         kWide + norms));
    if (ranks == 1) {
      EXPECT_EQ(held, whole);
    }
    EXPECT_EQ(model->table->weight.size(0), of_rank(kWords));
    EXPECT_EQ(model->layers[0]->as<DividedLayer>()->down->weight.size(1), inner);
  }
}

// What one division writes, another one reads, on any number of ranks and at any stage.
TEST(Parallelize, StatesFitOtherDivisions) {
  const auto make = [](const Mesh& mesh) {
    torch::manual_seed(5);
    DividedModel model;
    model->to(mesh.device());
    parallelize(named(*model), mesh, divided_plan(false, true));
    return model;
  };
  const auto train = [](DividedModel& model, ZeroOptimizer& optimizer, int64_t first) {
    for (int64_t step = first; step < first + 2; ++step) {
      divided_loss(model, divided_samples(step * 3, 3).to(test_device())).backward();  // the same on all ranks
      optimizer.step();
    }
  };
  std::vector<StateDict> states;
  const StateDict* start = nullptr;
  for (const Mesh* mesh : meshes())
    for (const int stage : {1, 3}) {
      DividedModel model = make(*mesh);
      ZeroOptimizer optimizer(named(*model), *mesh,
                              {.stage = stage, .optimizer = kAdam, .learning_rate = 1e-2, .unit_elements = 500});
      if (start == nullptr)
        train(model, optimizer, 0);
      else
        optimizer.load_state_dict(*start);
      StateDict state = optimizer.state_dict();
      EXPECT_EQ(state.empty(), test_world().rank() != 0);
      if (start == nullptr) {
        // All ranks load what rank 0 has.
        StateDict shared;
        for (auto& [key, value] : optimizer.state_dict()) shared[key] = value;
        CpuStream stream;
        DividedModel plain;
        std::vector<std::string> keys;
        std::string all;
        for (const auto& [key, value] : shared) all += key + "\n";
        all = gather_strings(*test_world().group("keys", test_ranks()), all)[0];
        const auto everyone = test_world().group("state", test_ranks());
        for (size_t begin = 0; begin < all.size();) {
          const size_t end = all.find('\n', begin);
          const std::string key = all.substr(begin, end - begin), name = key.substr(0, key.find('/'));
          begin = end + 1;
          torch::Tensor value;
          if (test_world().rank() == 0)
            value = shared[key].clone();
          else if (name == "zero_optimizer")
            value = torch::zeros({}, torch::kLong);
          else
            value = torch::zeros(plain->named_parameters()[name].sizes());
          everyone->broadcast(value.view({-1}), 0, stream).wait();
          shared[key] = value;
        }
        states.push_back(std::move(shared));
        start = &states.front();
      }
      train(model, optimizer, 2);
      const std::vector<NamedParameter> weights = optimizer.weights();
      static std::map<std::string, torch::Tensor> expected;
      for (const NamedParameter& p : weights) {
        if (const auto [at, inserted] = expected.try_emplace(p.name, p.tensor); !inserted) {
          EXPECT_LE((at->second - p.tensor).abs().max().item<double>(), kTolerance)
              << "tensor " << mesh->tensor().size() << ", stage " << stage << ", " << p.name;
        }
      }
    }
}

TEST(Parallelize, VocabularyCrossEntropyIsTorchs) {
  const Mesh& mesh = *meshes().back();
  torch::manual_seed(9);
  torch::nn::Linear head(7, kWords);
  head->to(mesh.device());
  const torch::Tensor x = (torch::randn({11, 7}) * 30).to(mesh.device());  // large logits
  torch::Tensor labels = (torch::arange(11) * 17 % kWords).to(mesh.device());
  labels.narrow(0, 3, 2).fill_(-100);
  const torch::Tensor whole_x = x.clone().requires_grad_();
  const torch::Tensor expected = torch::nn::functional::cross_entropy(head(whole_x), labels);
  expected.backward();
  parallelize({{"head.weight", head->weight}, {"head.bias", head->bias}}, mesh,
              {{.module = "head", .role = TensorRole::vocabulary, .gather = false}});
  const torch::Tensor own_x = x.clone().requires_grad_();
  const torch::Tensor loss = vocabulary_cross_entropy(head(own_x), labels, head->weight);
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5 * expected.item<double>());
  EXPECT_LE((own_x.grad() - whole_x.grad()).abs().max().item<double>(), 1e-6);
  if (mesh.device().is_cuda()) return;  // where a wrong label ends the process
  labels[0] = kWords;
  EXPECT_ANY_THROW((void)vocabulary_cross_entropy(head(own_x), labels, head->weight));
}

// Masks differ between ranks, are drawn again by recompute, and leave the generators of the ranks equal.
TEST(Parallelize, DividedDropout) {
  const Mesh& mesh = *meshes().back();
  Communicator& group = mesh.tensor();
  torch::manual_seed(21);
  const torch::Tensor x = torch::ones({64, 16}, mesh.device()).requires_grad_();
  const auto f = [&](const torch::Tensor& a) { return divided_dropout(a, 0.25, true, mesh); };
  const torch::Tensor y =
      recompute(std::vector<torch::Tensor>{},
                [&](const std::vector<torch::Tensor>& in) { return std::vector<torch::Tensor>{f(in[0])}; }, {x})[0];
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(y.detach()));  // the same mask: 0 or 4/3
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.1);
  EXPECT_NEAR(y.max().item<double>(), 4.0 / 3, 1e-6);
  CpuStream stream;
  torch::Tensor all = torch::empty({group.size(), 64 * 16}), next = torch::empty({group.size(), 1});
  group.all_gather(all.view({-1}), y.detach().cpu().reshape({-1}), stream).wait();
  group.all_gather(next.view({-1}), torch::rand({1}), stream).wait();
  for (int r = 1; r < group.size(); ++r) {
    EXPECT_FALSE(all[r].equal(all[0]));
    EXPECT_TRUE(next[r].equal(next[0]));
  }
  EXPECT_TRUE(divided_dropout(x, 0.25, false, mesh).is_same(x));
}

TEST(Parallelize, WhatCannotBeDividedIsAnError) {
  const Mesh& mesh = *meshes().back();
  if (mesh.tensor().size() == 1) GTEST_SKIP() << "needs two ranks";
  DividedModel model(/*tie=*/true);
  model->to(mesh.device());
  const auto all = named(*model);
  EXPECT_THAT(error_message([&] { parallelize(all, mesh, {{.module = "tabel"}}); }), HasSubstr("rule \"tabel\""));
  parallelize(all, mesh, divided_plan(true, true));
  EXPECT_THAT(error_message([&] { parallelize(all, mesh, divided_plan(true, true)); }),
              HasSubstr("parameter convolution is divided already"));
  const torch::Tensor x = torch::ones({2, kWide}, mesh.device());
  EXPECT_THAT(
      error_message([&] { (void)torch::matmul(x.narrow(1, 0, 1), model->table->weight.narrow(1, 0, 1).t()); }),
      HasSubstr("table.weight is divided over tensor-parallel ranks, and used by aten::matmul: expected linear"));
  EXPECT_THAT(error_message([&] { (void)model->table->weight.square().sum(); }), HasSubstr("used by aten::"));
  {
    const torch::NoGradGuard none;
    EXPECT_THAT(error_message([&] { (void)torch::matmul(model->table->weight.detach(), x.t()); }),
                HasSubstr("used by aten::matmul"));
    EXPECT_EQ(model->table->weight.square().sum().dim(), 0);  // of the part
  }
  const auto& layer = *model->layers[0]->as<DividedLayer>();
  EXPECT_THAT(error_message([&] { (void)torch::nn::functional::linear(x, layer.projection->weight); }),
              HasSubstr("expected " + std::to_string(layer.projection->weight.size(1)) + ", this rank's part of 20"));
  EXPECT_THAT(error_message([&] {
                (void)torch::nn::functional::embedding(
                    torch::zeros({1}, torch::dtype(torch::kLong).device(mesh.device())), layer.qkv->weight);
              }),
              HasSubstr("expected the role vocabulary"));
  if (mesh.device().is_cpu()) {
    EXPECT_ANY_THROW((void)model->table(torch::full({1}, kWords, torch::kLong)));
  }
  EXPECT_THAT(error_message([&] { model->to(torch::kDouble); }), HasSubstr("move a module before it is divided"));
  {
    const torch::NoGradGuard none;
    model->to(torch::kDouble);
    model->to(torch::kFloat);
  }
  EXPECT_THAT(error_message([&] { ZeroOptimizer optimizer(all, mesh); }),
              HasSubstr("was divided over tensor-parallel ranks and then moved"));
}

}  // namespace
}  // namespace partita::internal
