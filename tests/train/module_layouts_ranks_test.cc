// Checkpoints of modules go from pipelines to data and tensor parallelism, and back.
#include "tests/train/staged_case.h"

namespace partita::internal {
namespace {

using namespace test;

// Of all stages. Collective.
std::map<std::string, torch::Tensor> all_others(const Staged& staged) {
  std::vector<NamedParameter> own;
  for (const auto& [name, tensor] : staged.others()) own.push_back({name, tensor});
  std::map<std::string, torch::Tensor> all;
  for (const NamedParameter& p : all_stages(staged.mesh.pipeline(), own)) all[p.name] = p.tensor;
  return all;
}

std::map<std::string, torch::Tensor> weights_of(const Staged& staged) {
  std::map<std::string, torch::Tensor> all;
  for (const NamedParameter& p : staged.optimizer->weights()) all[p.name] = p.tensor;
  return all;
}

// Trained and frozen parameters that are divided in sizes that ranks do not divide, and buffers.
TEST(ModuleCheckpoint, FitsOtherLayouts) {
  const int ranks = test_world().size();
  std::vector<MeshLayout::Sizes> layouts{{.pipeline = ranks}, {.tensor = ranks}, {.data = ranks}};
  if (ranks == 4) layouts.insert(layouts.end(), {{.data = 2, .tensor = 2}, {.data = 2, .pipeline = 2}});
  std::vector<std::unique_ptr<Mesh>> meshes;
  for (const MeshLayout::Sizes& sizes : layouts) meshes.push_back(std::make_unique<Mesh>(test_world(), sizes));
  const SharedFolder folder;
  std::map<std::string, torch::Tensor> expected, expected_others;
  for (size_t from = 0; from < meshes.size(); ++from) {
    const std::filesystem::path run = folder / fmt::format("run{}", from);
    const Staged::Options model{
        .schedule = PipelineSchedule::zbv, .stage = 1, .micro_batches = 2, .seed = 3, .dropout = 0};
    const Staged writes(*meshes[from], model);
    for (int64_t step = 0; step < 2; ++step) writes.step(step);
    const std::filesystem::path saved =
        save_module(*writes.optimizer, writes.pipeline->untrained(), *meshes[from], run, {.step = 2});
    EXPECT_TRUE(verify_checkpoint(saved).empty());
    const std::map<std::string, torch::Tensor> weights = weights_of(writes), others = all_others(writes);
    EXPECT_EQ(weights.size(), kStagedParts * 6 - 3 * 4);
    EXPECT_EQ(others.size(), kStagedParts * 5 + 3 * 4 + 2);
    for (size_t to = 0; to < meshes.size(); ++to) {
      const std::string what = fmt::format("from layout {} to {}", from, to);
      Staged::Options other = model;
      other.seed = 8;
      other.stage = to == 0 ? 3 : static_cast<int>((from + to) % 4);
      const Staged reads(*meshes[to], other);
      const auto at = resume_module(*reads.optimizer, reads.pipeline->untrained(), *meshes[to], run);
      ASSERT_TRUE(at.has_value());
      EXPECT_EQ(at->step, 2);
      expect_same_others(weights_of(reads), weights, 0, what);
      expect_same_others(all_others(reads), others, 0, what);
      reads.step(2);
      if (expected.empty()) expected = weights_of(reads), expected_others = all_others(reads);
      expect_same_others(weights_of(reads), expected, 1e-5, what);
      expect_same_others(all_others(reads), expected_others, 1e-5, what);
    }
  }
}

}  // namespace
}  // namespace partita::internal
