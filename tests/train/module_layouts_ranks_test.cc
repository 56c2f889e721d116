// Checkpoints of modules go from pipelines to data and tensor parallelism, and back.
#include <torch/torch.h>

#include "partita/module/parallelize.h"
#include "partita/module/pipeline.h"
#include "partita/train/module_checkpoint.h"
#include "tests/train/module_case.h"

namespace partita::internal {
namespace {

using namespace test;

// Linears of sizes that do not divide, of which the second, the fourth, ... take what the one before computes in parts.
struct Case {
  Case(const Mesh& mesh, int stage, int64_t seed) {
    torch::manual_seed(seed);
    TensorPlan plan;
    std::vector<NamedParameter> all;
    for (int i = 0; i < 8; ++i) {
      const bool even = i % 2 == 0;
      const torch::nn::Linear linear(even ? 6 : 11, even ? 11 : 6);
      parts.push_back(pipeline_part(fmt::format("{}", i), linear));
      all.insert(all.end(), parts.back().parameters.begin(), parts.back().parameters.end());
      plan.push_back({.module = parts.back().name, .role = even ? TensorRole::column : TensorRole::row});
    }
    parallelize(all, mesh, plan);
    pipeline =
        std::make_unique<Pipeline>(parts, mesh, PipelineOptions{.schedule = PipelineSchedule::zbv, .micro_batches = 2});
    optimizer = std::make_unique<ZeroOptimizer>(
        pipeline->parameters(), mesh,
        ZeroOptimizerOptions{.stage = stage, .micro_batches = pipeline->passes(), .unit_elements = 50});
  }
  void step(int64_t number) const {
    (void)pipeline->step(
        *optimizer,
        [&](int m) {
          return std::vector<torch::Tensor>{torch::sin(torch::arange(18).view({3, 6}) * (number + 2 + m))};
        },
        [](const std::vector<torch::Tensor>& outputs, int) { return outputs[0].square().mean(); });
    optimizer->step();
  }
  std::vector<PipelinePart> parts;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<ZeroOptimizer> optimizer;
};

TEST(ModuleCheckpoint, FitsOtherLayouts) {
  const int ranks = test_world().size();
  std::vector<std::unique_ptr<Mesh>> meshes;
  for (const MeshLayout::Sizes& sizes :
       {MeshLayout::Sizes{.pipeline = ranks}, MeshLayout::Sizes{.tensor = ranks}, MeshLayout::Sizes{.data = ranks}})
    meshes.push_back(std::make_unique<Mesh>(test_world(), sizes));
  const SharedFolder folder;
  std::vector<NamedParameter> expected;
  for (size_t from = 0; from < meshes.size(); ++from) {
    const std::filesystem::path run = folder / fmt::format("run{}", from);
    const Case writes(*meshes[from], 1, 3);
    for (int64_t step = 0; step < 2; ++step) writes.step(step);
    (void)save_module(*writes.optimizer, {}, *meshes[from], run, {.step = 2});
    const std::vector<NamedParameter> saved = writes.optimizer->weights();
    EXPECT_EQ(saved.size(), 16);
    for (size_t to = 0; to < meshes.size(); ++to) {
      const Case reads(*meshes[to], to == 0 ? 3 : 2, 8);
      const auto at = resume_module(*reads.optimizer, {}, *meshes[to], run);
      ASSERT_TRUE(at.has_value());
      EXPECT_EQ(at->step, 2);
      for (const NamedParameter& p : reads.optimizer->weights())
        for (const NamedParameter& e : saved)
          if (e.name == p.name) {
            EXPECT_TRUE(p.tensor.equal(e.tensor)) << p.name << ", from layout " << from << " to " << to;
          }
      reads.step(2);
      const std::vector<NamedParameter> weights = reads.optimizer->weights();
      if (expected.empty()) expected = weights;
      for (const NamedParameter& p : weights)
        for (const NamedParameter& e : expected)
          if (e.name == p.name) {
            EXPECT_LE((p.tensor - e.tensor).abs().max().item<double>(), 1e-5)
                << p.name << ", from layout " << from << " to " << to;
          }
    }
  }
}

}  // namespace
}  // namespace partita::internal
