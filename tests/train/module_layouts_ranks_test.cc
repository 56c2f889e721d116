// Checkpoints of modules go from pipelines to data and tensor parallelism, and back.
#include "partita/checkpoint/manifest.h"
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

// With stage 3 no rank has the whole: each writes its slice. Otherwise the first one writes all.
TEST(ModuleCheckpoint, RanksStoreTheirSlicesOfFrozenParameters) {
  const int ranks = test_world().size();
  for (const int stage : {0, 3}) {
    torch::manual_seed(2);
    torch::nn::Linear trained(3, 2), frozen(70, 50);
    frozen->weight.requires_grad_(false);
    const torch::Tensor expected = frozen->weight.detach().clone();
    ZeroOptimizer optimizer({{"trained", trained->weight}, {"frozen", frozen->weight}}, mesh(), {.stage = stage});
    const SharedFolder folder;
    const Manifest manifest = read_manifest(
        save_module(optimizer, {.buffers = {}, .frozen = {{"frozen", frozen->weight}}}, mesh(), folder / "run", {}));
    std::map<std::string, int64_t> elements;  // by file
    for (const StoredTensor& tensor : manifest.tensors)
      for (const StoredPiece& piece : tensor.pieces)
        if (tensor.info.name == "untrained/frozen")
          for (const Box& box : piece.boxes)
            elements[manifest.files[static_cast<size_t>(piece.file)].name] += box.count();
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t found = elements[constant_file_name(rank)];
      if (stage == 3) {
        EXPECT_TRUE(found > 0 && found <= 3500 / ranks + 128) << found << " on rank " << rank;
      } else {
        EXPECT_EQ(found, rank == 0 ? 3500 : 0) << rank;
      }
    }
    const torch::NoGradGuard none;
    frozen->weight.zero_();
    EXPECT_TRUE(resume_module(optimizer, {.frozen = {{"frozen", frozen->weight}}}, mesh(), folder / "run"));
    EXPECT_TRUE(frozen->weight.detach().clone().equal(expected)) << stage;
  }
}

}  // namespace
}  // namespace partita::internal
