// Pipelines of parts of modules are those of one process.
#include "partita/module/pipeline.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <map>

#include "partita/base/error.h"
#include "partita/module/operand_key.h"
#include "partita/module/parallelize.h"
#include "tests/module/divided_model.h"
#include "tests/module/offload_case.h"
#include "tests/module/test_device.h"
#include "tests/support/error_message.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

using namespace test;
using testing::HasSubstr;

constexpr double kTolerance = 1e-5;
constexpr int64_t kSamples = 2, kSteps = 3, kLayers = 8;
// The bias of keys has no gradient but rounding, which a smaller epsilon would scale up.
constexpr OptimizerOptions kAdam{.beta2 = 0.999, .epsilon = 1e-3, .weight_decay = 0.01};

// The parts of a model: tokens and a mask that all parts pass on, so that stages hand over several tensors, of which
// one has no gradient.
struct Parts {
  explicit Parts(bool tied, torch::Device device = torch::kCPU) {
    torch::manual_seed(11);
    table = torch::nn::Embedding(kWords, kWide);
    for (int64_t i = 0; i < kLayers; ++i) layers.push_back(DividedLayer());
    norm = torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWide}));
    head = tied ? torch::nn::Linear(nullptr) : torch::nn::Linear(kWide, kWords);
    frozen = torch::randn({kWide}).to(device);
    table->to(device);
    for (DividedLayer& layer : layers) layer->to(device);
    norm->to(device);
    if (!tied) head->to(device);
  }
  [[nodiscard]] std::vector<PipelinePart> list() {
    std::vector<PipelinePart> parts;
    parts.push_back({.name = "table",
                     .forward =
                         [this](const std::vector<torch::Tensor>& in) {
                           return std::vector<torch::Tensor>{table(in[0]) + frozen, in[0].gt(2)};
                         },
                     .parameters = {{"table.weight", table->weight}, {"frozen", frozen}}});
    for (size_t i = 0; i < layers.size(); ++i) {
      PipelinePart part = pipeline_part(fmt::format("layers.{}", i), layers[i]);
      part.forward = [this, i](const std::vector<torch::Tensor>& in) {
        return std::vector<torch::Tensor>{layers[i]->forward(in[0]) * in[1].unsqueeze(-1).to(torch::kFloat) + in[0],
                                          in[1]};
      };
      parts.push_back(std::move(part));
    }
    parts.push_back({.name = "head",
                     .forward =
                         [this](const std::vector<torch::Tensor>& in) {
                           const torch::Tensor x = norm(in[0]);
                           return std::vector<torch::Tensor>{
                               head.is_empty() ? torch::nn::functional::linear(x, table->weight) : head(x)};
                         },
                     .parameters = {{"norm.weight", norm->weight}, {"norm.bias", norm->bias}}});
    if (head.is_empty())
      parts.back().parameters.push_back({"head.weight", table->weight});
    else
      parts.back().parameters.insert(parts.back().parameters.end(),
                                     {{"head.weight", head->weight}, {"head.bias", head->bias}});
    return parts;
  }
  torch::nn::Embedding table{nullptr};
  std::vector<DividedLayer> layers;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
  torch::Tensor frozen;
};

torch::Tensor loss_of(const std::vector<torch::Tensor>& outputs, const torch::Tensor& samples) {
  return torch::nn::functional::cross_entropy(outputs[0].flatten(0, 1), samples.narrow(1, 1, kLong).reshape({-1}));
}

struct Trained {
  std::vector<double> losses, norms;
  std::map<std::string, torch::Tensor> weights;
};

Trained reference(bool tied, int micro_batches, int data) {
  Parts model(tied);
  const std::vector<PipelinePart> parts = model.list();
  std::map<std::string, torch::Tensor> named;
  std::vector<torch::Tensor> trained;
  for (const PipelinePart& part : parts)
    for (const NamedParameter& p : part.parameters)
      if (p.tensor.requires_grad() && (!tied || p.name != "head.weight")) {
        named[p.name] = p.tensor;
        trained.push_back(p.tensor);
      }
  torch::optim::AdamW optimizer(trained, torch::optim::AdamWOptions(1e-2).weight_decay(0.01).eps(1e-3));
  Trained run;
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    double total = 0;
    for (int64_t m = 0; m < micro_batches * data; ++m) {
      const torch::Tensor samples = divided_samples((step * micro_batches * data + m) * kSamples, kSamples);
      std::vector<torch::Tensor> x{samples.narrow(1, 0, kLong)};
      for (const PipelinePart& part : parts) x = part.forward(x);
      const torch::Tensor loss = loss_of(x, samples) / (micro_batches * data);
      loss.backward();
      total += loss.item<double>();
    }
    run.losses.push_back(total);
    run.norms.push_back(torch::nn::utils::clip_grad_norm_(trained, 0.5));
    optimizer.step();
  }
  for (const auto& [name, tensor] : named) run.weights[name] = tensor.detach().clone();
  return run;
}

const Mesh& mesh_of(const MeshLayout::Sizes& sizes) {
  static std::map<std::tuple<int, int, int>, Mesh*> made;
  Mesh*& mesh = made[{sizes.data, sizes.tensor, sizes.pipeline}];
  if (mesh == nullptr)
    mesh = &KeptMeshes::keep(std::make_unique<Mesh>(test_world(), sizes, test_device(), std::chrono::seconds(60)));
  return *mesh;
}

void expect_same_run(const Mesh& mesh, const PipelineOptions& options, int stage, bool tied) {
  const int data = mesh.data().size();
  const std::string what =
      fmt::format("{} x {} x {}, schedule {}, {} micro-batches, stage {}, tied {}", data, mesh.tensor().size(),
                  mesh.pipeline().size(), name_of(options.schedule), options.micro_batches, stage, tied);
  const Trained expected = reference(tied, options.micro_batches, data);
  Parts model(tied, mesh.device());
  std::vector<PipelinePart> parts = model.list();
  if (mesh.tensor().size() > 1) {
    std::vector<NamedParameter> all;
    for (const PipelinePart& part : parts) all.insert(all.end(), part.parameters.begin(), part.parameters.end());
    parallelize(all, mesh, divided_plan(tied, true));
  }
  Pipeline pipeline(parts, mesh, options);
  ZeroOptimizer optimizer(pipeline.parameters(), mesh,
                          {.stage = stage,
                           .optimizer = kAdam,
                           .learning_rate = 1e-2,
                           .max_norm = 0.5,
                           .micro_batches = pipeline.passes(),
                           .unit_elements = 900});
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto samples = [&](int m) {
      const int64_t first = (step * data + mesh.data().rank()) * options.micro_batches + m;
      return divided_samples(first * kSamples, kSamples).to(mesh.device());
    };
    const auto inputs = [&](int m) { return std::vector<torch::Tensor>{samples(m).narrow(1, 0, kLong)}; };
    const auto loss = [&](const std::vector<torch::Tensor>& outputs, int m) { return loss_of(outputs, samples(m)); };
    const double before = pipeline.evaluate(inputs, loss);
    torch::Tensor mean = torch::full({1}, pipeline.step(optimizer, inputs, loss), torch::kDouble);
    EXPECT_NEAR(before, mean.item<double>(), 1e-6) << what;
    if (options.schedule == PipelineSchedule::zb_h1) {  // gradients can wait
      for (const NamedParameter& p : pipeline.parameters())
        EXPECT_TRUE(has_operand_key(p.tensor) || p.tensor.dim() != 2 || !p.tensor.requires_grad()) << what << p.name;
    }
    CpuStream stream;
    mesh.data().all_reduce(mean, Reduce::sum, stream).wait();
    EXPECT_NEAR(mean.item<double>() / data, expected.losses[static_cast<size_t>(step)], kTolerance) << what;
    const double norm = expected.norms[static_cast<size_t>(step)];
    EXPECT_NEAR(optimizer.step().grad_norm, norm, kTolerance * norm) << what << ", step " << step;
  }
  const std::vector<NamedParameter> weights = optimizer.weights();
  EXPECT_EQ(weights.size(), expected.weights.size()) << what;
  for (const NamedParameter& p : weights) {
    const torch::Tensor& e = expected.weights.at(p.name);
    ASSERT_EQ(p.tensor.sizes(), e.sizes()) << what << ", " << p.name;
    EXPECT_LE((p.tensor - e).abs().max().item<double>(), kTolerance * e.abs().max().item<double>())
        << what << ", " << p.name;
  }
}

TEST(Pipeline, IsTheSingleProcessRun) {
  const int ranks = test_world().size();
  int turn = 0;
  for (size_t s = 0; s < EnumNames<PipelineSchedule>::kNames.size(); ++s)
    for (const int micro_batches : {1, 3, 2 * ranks + 1}) {
      if (micro_batches == 3 && turn % 2 == 0 && !full_products()) continue;
      const PipelineOptions options{.schedule = static_cast<PipelineSchedule>(s), .micro_batches = micro_batches};
      for (int stage = 0; stage <= 3; ++stage)
        if (full_products() || stage == turn % 4)
          expect_same_run(mesh_of({.pipeline = ranks}), options, stage, (turn / 2) % 2 == 0);
      ++turn;
    }
}

// With data and tensor parallelism.
TEST(Pipeline, IsTheSingleProcessRunInThreeDimensions) {
  if (test_world().size() != 4) GTEST_SKIP() << "needs four ranks";
  int turn = 0;
  for (const PipelineSchedule schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::zbv, PipelineSchedule::interleaved_zero_bubble})
    for (const MeshLayout::Sizes& sizes :
         {MeshLayout::Sizes{.data = 2, .pipeline = 2}, MeshLayout::Sizes{.tensor = 2, .pipeline = 2}}) {
      for (int stage = 0; stage <= 3; ++stage)
        if (full_products() || stage == 3 || stage == turn % 3)
          expect_same_run(mesh_of(sizes), {.schedule = schedule, .micro_batches = 3}, stage, turn % 2 == 0);
      ++turn;
    }
}

// States in host memory and on disk, with late copies: the same bits, of tied tables, too.
TEST(Pipeline, OffloadChangesNoBit) {
  const TemporaryDirectory folder;
  const int ranks = test_world().size();
  const auto train = [&](const Mesh& mesh, const PipelineOptions& options, int stage, bool tied,
                         const Offload& offload) {
    Parts model(tied, mesh.device());
    std::vector<PipelinePart> parts = model.list();
    std::vector<NamedParameter> all;
    for (const PipelinePart& part : parts) all.insert(all.end(), part.parameters.begin(), part.parameters.end());
    if (mesh.tensor().size() > 1) parallelize(all, mesh, divided_plan(tied, true));
    Pipeline pipeline(parts, mesh, options);
    ZeroOptimizer optimizer(pipeline.parameters(), mesh,
                            {.stage = stage,
                             .optimizer = kAdam,
                             .learning_rate = 1e-2,
                             .max_norm = 0.5,
                             .micro_batches = pipeline.passes(),
                             .unit_elements = 900,
                             .offload = offload,
                             .poison = offload.optimizer + offload.disk > 0});
    Trained run;
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto samples = [&](int m) {
        const int64_t first = (step * mesh.data().size() + mesh.data().rank()) * options.micro_batches + m;
        return divided_samples(first * kSamples, kSamples).to(mesh.device());
      };
      const auto inputs = [&](int m) { return std::vector<torch::Tensor>{samples(m).narrow(1, 0, kLong)}; };
      const auto loss = [&](const std::vector<torch::Tensor>& outputs, int m) { return loss_of(outputs, samples(m)); };
      run.losses.push_back(pipeline.evaluate(inputs, loss));
      run.losses.push_back(pipeline.step(optimizer, inputs, loss));
      run.norms.push_back(optimizer.step().grad_norm);
    }
    for (const auto& [key, value] : optimizer.state_dict()) run.weights[key] = value;
    for (const NamedParameter& p : optimizer.weights()) run.weights["of " + p.name] = p.tensor;
    return run;
  };
  std::vector<MeshLayout::Sizes> layouts = {{.pipeline = ranks}, {.tensor = ranks}};
  if (ranks == 4) layouts.insert(layouts.end(), {{.data = 2, .pipeline = 2}, {.tensor = 2, .pipeline = 2}});
  int turn = 0;
  for (const MeshLayout::Sizes& sizes : layouts)
    for (const PipelineSchedule schedule :
         {PipelineSchedule::one_f_one_b, PipelineSchedule::zb_h1, PipelineSchedule::zbv})
      for (int stage = 0; stage <= 3; ++stage) {
        const PipelineOptions options{.schedule = schedule, .micro_batches = turn % 3 + 1};
        const bool tied = turn % 2 == 0;
        const Trained expected = train(mesh_of(sizes), options, stage, tied, {});
        for (size_t s = 0; s < kShares.size(); ++s) {
          if (!full_products() && static_cast<int>(s) != (turn + turn / 12) % std::ssize(kShares)) continue;
          const Offload offload = offload_of(kShares[s], folder.path(), turn % kCopies);
          const std::string what =
              fmt::format("{} x {} x {}, schedule {}, {} micro-batches, stage {}, tied {}, share {}", sizes.data,
                          sizes.tensor, sizes.pipeline, name_of(schedule), options.micro_batches, stage, tied, s);
          const Trained found = train(mesh_of(sizes), options, stage, tied, offload);
          EXPECT_EQ(found.losses, expected.losses) << what;
          EXPECT_EQ(found.norms, expected.norms) << what;
          ASSERT_EQ(found.weights.size(), expected.weights.size()) << what;
          for (const auto& [key, value] : expected.weights)
            EXPECT_TRUE(found.weights.at(key).equal(value)) << what << key;
        }
        ++turn;
      }
}

// A state goes from a pipeline to data parallelism and back.
TEST(Pipeline, StatesFitOtherLayouts) {
  const int ranks = test_world().size();
  const auto state_after = [&](const Mesh& mesh, const StateDict* from) {
    Parts model(true, mesh.device());
    Pipeline pipeline(model.list(), mesh, {.schedule = PipelineSchedule::zb_h1, .micro_batches = 2});
    ZeroOptimizer optimizer(pipeline.parameters(), mesh,
                            {.stage = 2, .optimizer = kAdam, .micro_batches = pipeline.passes()});
    if (from != nullptr) optimizer.load_state_dict(*from);
    for (int64_t step = 0; step < 2; ++step) {
      const auto samples = [&](int m) {
        return divided_samples((step * 2 + m) * kSamples, kSamples).to(mesh.device());
      };
      (void)pipeline.step(
          optimizer, [&](int m) { return std::vector<torch::Tensor>{samples(m).narrow(1, 0, kLong)}; },
          [&](const std::vector<torch::Tensor>& outputs, int m) { return loss_of(outputs, samples(m)); });
      optimizer.step();
    }
    return optimizer.state_dict();
  };
  const Mesh alone = Mesh::alone(test_world(), test_device());
  const StateDict one = state_after(alone, nullptr);  // on every rank
  const StateDict two = state_after(alone, &one);
  const StateDict first = state_after(mesh_of({.pipeline = ranks}), nullptr);
  const StateDict second = state_after(mesh_of({.pipeline = ranks}), &one);
  EXPECT_EQ(first.empty(), test_world().rank() > 0);
  for (const auto& [found, expected] : {std::pair(&first, &one), std::pair(&second, &two)})
    if (!found->empty()) {
      ASSERT_EQ(found->size(), expected->size());
      for (const auto& [key, value] : *expected)
        EXPECT_LE((found->at(key) - value).abs().max().to(torch::kDouble).item<double>(), kTolerance) << key;
    }
}

// Of this rank's parts: what is not trained, once each, and the calls before they are computed.
TEST(Pipeline, KnowsThePartsOfThisRank) {
  const int ranks = test_world().size();
  const Mesh& mesh = mesh_of({.pipeline = ranks});
  Parts model(false, mesh.device());
  std::vector<PipelinePart> parts = model.list();
  const torch::Tensor mask = torch::ones({3});
  for (size_t p = 0; p < parts.size(); ++p) parts[p].buffers = {{"mask", mask}, {fmt::format("{}", p), mask.clone()}};
  Pipeline pipeline(parts, mesh, {.schedule = PipelineSchedule::one_f_one_b, .micro_batches = 3});
  EXPECT_EQ(pipeline.micro_batches(), 3);
  const int first = pipeline.first_part(mesh.pipeline().rank()), end = pipeline.first_part(mesh.pipeline().rank() + 1);
  const Untrained untrained = pipeline.untrained();
  std::vector<std::string> names, expected{"mask"};
  for (const NamedParameter& buffer : untrained.buffers) names.push_back(buffer.name);
  for (int p = first; p < end; ++p) expected.push_back(fmt::format("{}", p));
  EXPECT_EQ(names, expected);
  EXPECT_EQ(untrained.frozen.size(), first == 0 ? 1 : 0);

  ZeroOptimizer optimizer(pipeline.parameters(), mesh, {.micro_batches = pipeline.passes()});
  std::vector<std::pair<int, int>> calls, in_order;
  pipeline.before_each_part([&](int part, int micro_batch) { calls.emplace_back(micro_batch, part); });
  const auto samples = [&](int m) { return divided_samples(m * kSamples, kSamples).to(mesh.device()); };
  const auto inputs = [&](int m) { return std::vector<torch::Tensor>{samples(m).narrow(1, 0, kLong)}; };
  const auto loss = [&](const std::vector<torch::Tensor>& outputs, int m) { return loss_of(outputs, samples(m)); };
  (void)pipeline.step(optimizer, inputs, loss);
  for (int m = 0; m < 3; ++m)
    for (int p = first; p < end; ++p) in_order.emplace_back(m, p);
  EXPECT_EQ(calls, in_order);
  (void)pipeline.evaluate(inputs, loss);
  EXPECT_EQ(calls.size(), 2 * in_order.size());
  optimizer.step();
}

TEST(Pipeline, WhatDoesNotFitIsAnError) {
  const int ranks = test_world().size();
  const Mesh& mesh = mesh_of({.pipeline = ranks});
  Parts model(true, mesh.device());
  const auto message = [&](std::vector<PipelinePart> parts, const PipelineOptions& options) {
    return error_message([&] { Pipeline pipeline(std::move(parts), mesh, options); });
  };
  std::vector<PipelinePart> few{model.list().front()};
  EXPECT_THAT(message(few, {.schedule = PipelineSchedule::zbv}),
              HasSubstr(fmt::format("1 parts for {} stages", 2 * ranks)));
  EXPECT_THAT(message(model.list(), {.stages = {1, 2}}),
              HasSubstr(fmt::format("2 stages of 3 parts in all, expected {} stages of {}", ranks, kLayers + 2)));
  EXPECT_THAT(message(model.list(), {.virtual_stages = 3}), HasSubstr("1f1b"));
  EXPECT_THAT(message(model.list(), {.micro_batches = 0}), HasSubstr("micro"));
  if (ranks == 1) return;
  std::vector<PipelinePart> shared = model.list();
  shared[kLayers / 2 + 1].parameters.push_back({"again", model.table->weight});
  if (ranks > 2) {
    EXPECT_THAT(message(shared, {}), HasSubstr("only the first and the last stage may share a parameter"));
  }
  std::vector<PipelinePart> same = model.list();
  same[2].parameters = {{same[1].parameters[0].name, same[2].parameters[0].tensor}};
  EXPECT_THAT(message(same, {}), HasSubstr("two parameters are called layers.0."));
  std::vector<PipelinePart> buffers = model.list();
  buffers.front().buffers = buffers.back().buffers = {{"mask", torch::ones({2})}};
  EXPECT_EQ(message(buffers, {}), "no error") << "one that two stages share";
  buffers.back().buffers = {{"mask", torch::ones({2})}};
  EXPECT_THAT(message(buffers, {}), HasSubstr("two buffers are called mask: give the parts different names"));
  Pipeline pipeline(model.list(), mesh, {});
  ZeroOptimizer optimizer(pipeline.parameters(), mesh, {.micro_batches = 2});
  EXPECT_THAT(error_message([&] { (void)pipeline.step(optimizer, {}, {}); }),
              HasSubstr("the optimizer has micro_batches 2, expected 1"));
  EXPECT_EQ(pipeline.first_part(0), 0);
  EXPECT_EQ(pipeline.first_part(ranks), kLayers + 2);
}

}  // namespace
}  // namespace partita::internal
