// What tests of training a user's module by a pipeline share: parts with running statistics, dropout, buffers and
// frozen parameters, of which some are divided and some belong to several stages.
#pragma once
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "partita/module/parallelize.h"
#include "partita/module/pipeline.h"
#include "partita/module/tensor_placement.h"
#include "tests/train/module_case.h"

namespace partita::internal::test {

inline constexpr int64_t kStagedWidth = 6, kStagedInner = 11;
inline constexpr int kStagedParts = 8;

struct StagedPartImpl : torch::nn::Module {
  StagedPartImpl(bool freeze, bool normalizes, double dropout_of) : normalizes_(normalizes) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
    dropout = register_module("dropout", torch::nn::Dropout(dropout_of));
    switches = register_buffer("switches", torch::rand({kStagedWidth}) < 0.7);
    gain = register_parameter("gain", torch::rand({}, torch::kDouble) + 0.5, /*requires_grad=*/false);
    if (freeze)
      for (torch::Tensor& p : std::vector{up->weight, up->bias, down->weight, down->bias}) p.requires_grad_(false);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor normed = norm(x);  // counts the samples in any case
    const torch::Tensor y = dropout(down(torch::tanh(up(normalizes_ ? normed : x))));
    return x + y * gain.to(torch::kFloat) * switches.to(torch::kFloat);
  }
  torch::nn::BatchNorm1d norm{kStagedWidth};
  torch::nn::Linear up{kStagedWidth, kStagedInner}, down{kStagedInner, kStagedWidth};
  torch::nn::Dropout dropout{nullptr};
  torch::Tensor switches, gain;

 private:
  bool normalizes_;
};
TORCH_MODULE(StagedPart);

// Samples [count, width] that are a function of their numbers.
inline torch::Tensor staged_samples(int64_t first, int64_t count) {
  const torch::Tensor number = torch::arange(first, first + count).unsqueeze(1);
  return torch::sin((number + 1) * 0.37 * (torch::arange(kStagedWidth) + 2));
}

struct Staged {
  struct Options {
    PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
    int stage = 1, micro_batches = 3;
    int64_t seed = 1;
    bool normalizes = true;
    double dropout = 0.2;
    Offload offload = {};
  };
  Staged(const Mesh& on, const Options& options) : mesh(on) {
    torch::manual_seed(options.seed);
    const torch::Tensor shared = torch::randn({kStagedWidth}), mask = torch::rand({kStagedWidth}) + 0.5;
    std::vector<NamedParameter> all;
    TensorPlan plan;
    for (int i = 0; i < kStagedParts; ++i) {
      modules.push_back(StagedPart(i % 3 == 1, options.normalizes, options.dropout));
      parts.push_back(pipeline_part(fmt::format("parts.{}", i), modules.back()));
      all.insert(all.end(), parts.back().parameters.begin(), parts.back().parameters.end());
      parts.back().buffers.push_back({"mask", mask});  // of all stages
    }
    plan = {{.module = "parts.*.up", .role = TensorRole::column}, {.module = "parts.*.down", .role = TensorRole::row}};
    for (const bool first : {true, false}) {  // frozen, and of the first and the last stage
      PipelinePart& part = first ? parts.front() : parts.back();
      part.parameters.push_back({first ? "shared" : "again", shared});
      part.forward = [shared, mask, inner = part.forward](const std::vector<torch::Tensor>& in) {
        return inner({in[0] * mask + shared});
      };
    }
    parallelize(all, mesh, plan);
    pipeline = std::make_unique<Pipeline>(
        parts, mesh, PipelineOptions{.schedule = options.schedule, .micro_batches = options.micro_batches});
    optimizer = std::make_unique<ZeroOptimizer>(
        pipeline->parameters(), mesh,
        ZeroOptimizerOptions{.stage = options.stage,
                             .optimizer = {.beta2 = 0.999, .epsilon = 1e-3, .weight_decay = 0.01},
                             .micro_batches = pipeline->passes(),
                             .unit_elements = 60,
                             .offload = options.offload});
  }
  // This rank's samples of a micro-batch.
  [[nodiscard]] torch::Tensor samples(const MicroBatch& batch) const {
    return staged_samples(batch.first_sample + mesh.data().rank() * batch.samples, batch.samples);
  }
  [[nodiscard]] ModuleTrainer::Inputs inputs() const {
    return [this](const MicroBatch& batch) { return std::vector<torch::Tensor>{samples(batch)}; };
  }
  [[nodiscard]] ModuleTrainer::LossOfOutputs loss() const {
    return [this](const std::vector<torch::Tensor>& outputs, const MicroBatch& batch) {
      return torch::mse_loss(outputs[0], samples(batch).roll(1, 1));
    };
  }
  // One step of a loop of one's own, of the same samples on all data-parallel ranks.
  void step(int64_t number) const {
    const auto batch = [&](int m) {
      return MicroBatch{.step = number,
                        .number = m,
                        .first_sample = (number * pipeline->micro_batches() + m) * 5 - mesh.data().rank() * 5,
                        .samples = 5};
    };
    (void)pipeline->step(
        *optimizer, [&](int m) { return inputs()(batch(m)); },
        [&](const std::vector<torch::Tensor>& outputs, int m) { return loss()(outputs, batch(m)); });
    optimizer->step();
  }
  // Buffers and frozen parameters of this rank, as copies, by name; of the whole, where they are divided. Collective.
  [[nodiscard]] std::map<std::string, torch::Tensor> others() const {
    const torch::NoGradGuard none;
    std::map<std::string, torch::Tensor> all;
    const Untrained own = pipeline->untrained();
    for (const std::vector<NamedParameter>* list : {&own.buffers, &own.frozen})
      for (const NamedParameter& p : *list) {
        const TensorPlacement* placement = placement_of(p.tensor);
        const bool divided = placement != nullptr && placement->divided();
        const torch::Tensor held = torch::empty(p.tensor.sizes(), p.tensor.scalar_type()).copy_(p.tensor);
        all[p.name] = divided ? gather_whole(held, placement->spec, {.groups = {&mesh.tensor()}}) : held;
      }
    return all;
  }

  const Mesh& mesh;
  std::vector<StagedPart> modules;
  std::vector<PipelinePart> parts;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<ZeroOptimizer> optimizer;
};

// Of those that `found` has. tolerance: of the largest element; 0: the same bits.
inline void expect_same_others(const std::map<std::string, torch::Tensor>& found,
                               const std::map<std::string, torch::Tensor>& expected, double tolerance,
                               const std::string& what) {
  for (const auto& [name, value] : found) {
    ASSERT_TRUE(expected.contains(name)) << what << ", " << name;
    const torch::Tensor& e = expected.at(name);
    ASSERT_EQ(value.sizes(), e.sizes()) << what << ", " << name;
    if (tolerance == 0 || !value.is_floating_point()) {
      EXPECT_TRUE(value.equal(e)) << what << ", " << name;
    } else {
      EXPECT_LE((value - e).abs().max().item<double>(), tolerance * e.abs().max().item<double>())
          << what << ", " << name;
    }
  }
}

}  // namespace partita::internal::test
