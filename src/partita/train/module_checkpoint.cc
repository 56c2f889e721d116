#include "partita/train/module_checkpoint.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/stored_field.h"
#include "partita/module/optimizer_contents.h"
#include "partita/train/checkpoint_pieces.h"
#include "partita/train/trainer.h"
#include "partita/train/untrained_contents.h"

namespace partita {
namespace internal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "torch::nn module";
constexpr int64_t kMostSamples = int64_t{1} << 60;

// What this rank holds, or with `saved` its share of what is written: each element is stored once.
CheckpointContents make_contents(const OptimizerContents& optimizer, bool saved) {
  CheckpointContents state;
  std::map<std::string, int> first;  // index of each parameter's first tensor
  for (const OptimizerContents::Parameter& p : optimizer.parameters) {
    first[p.name] = static_cast<int>(state.tensors.size());
    state.tensors.push_back({"model/" + p.name, p.shape, p.dtype});
    for (const std::string& kind : p.states) state.tensors.push_back({kind + "/" + p.name, p.shape, p.dtype});
  }
  std::shared_ptr<const DeviceReads> reads;
  for (const OwnedBox& owned : optimizer.boxes) {
    if (!reads) reads = device_reads(owned.values[0].device());
    if (saved && !owned.primary) continue;
    add_pieces(state, first.at(owned.parameter->name), owned,
               {.reads = reads, .replica = saved ? optimizer.replica : 0, .replicas = saved ? optimizer.replicas : 1});
  }
  return state;
}

ModuleState state_from(const StoredField& f) {
  ModuleState s;
  s.counts.step = f.at("step").integer(0, kMostSteps);
  s.counts.consumed_samples = f.at("consumed_samples").integer(0, kMostSamples);
  s.counts.skipped_steps = f.at("skipped_steps").integer(0, s.counts.step);
  s.counts.nan_steps = f.at("nan_steps").integer(0, s.counts.step);
  s.steps = f.at("optimizer").at("steps").integer(0, kMostSteps);
  s.updates = f.at("optimizer").at("updates").integer(0, s.steps);
  for (const auto& [name, value] : f.at("identity").object().items())
    s.identity[name] = StoredField(value, "identity." + name).text();
  return s;
}

nlohmann::json to_json(const ModuleState& s) {
  return {{"kind", kKind},
          {"step", s.counts.step},
          {"consumed_samples", s.counts.consumed_samples},
          {"skipped_steps", s.counts.skipped_steps},
          {"nan_steps", s.counts.nan_steps},
          {"optimizer", {{"steps", s.steps}, {"updates", s.updates}}},
          {"identity", s.identity}};
}

}  // namespace

ModuleState read_module_state(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  if (manifest.scalars.value("kind", nlohmann::json()) != kKind)
    fail(
        "{} is not a checkpoint of a {} but of a Partita model, which `partita train` resumes: choose another folder "
        "for "
        "the run",
        folder.string(), kKind);
  try {
    return state_from(StoredField(manifest.scalars, ""));
  } catch (const Damaged& error) {
    damaged("{} cannot be used: {}", folder.string(), error.what());
  }
}

CheckpointContents saved_module(ZeroOptimizer& optimizer, const Untrained& untrained, const Mesh& mesh,
                                ModuleState state) {
  struct Held {  // what pieces refer to
    OptimizerContents optimizer;
    std::optional<UntrainedContents> untrained;
  };
  const auto held = std::make_shared<Held>();
  held->optimizer = optimizer_contents(optimizer);
  CheckpointContents contents = make_contents(held->optimizer, /*saved=*/true);
  held->untrained.emplace(untrained, held->optimizer, mesh);
  held->untrained->add_saved(contents);
  state.steps = held->optimizer.steps;
  state.updates = held->optimizer.updates;
  contents.scalars = to_json(state);
  contents.owner = held;
  return contents;
}

void load_module(ZeroOptimizer& optimizer, const Untrained& untrained, const Mesh& mesh, const fs::path& folder) {
  const OptimizerContents held = optimizer_contents(optimizer);
  CheckpointContents contents = make_contents(held, /*saved=*/false);
  UntrainedContents others(untrained, held, mesh);
  others.add_loaded(contents);
  const ModuleState state = read_module_state(folder);
  CommunicatorPeers peers(mesh.world());
  (void)load_checkpoint(folder, contents, peers);
  take_contents(optimizer, state.steps, state.updates);
  others.take_loaded();
}

ModuleSize module_size(ZeroOptimizer& optimizer, const Untrained& untrained, const Mesh& mesh) {
  const OptimizerContents held = optimizer_contents(optimizer);
  const UntrainedContents others(untrained, held, mesh);
  ModuleSize size{.frozen = others.frozen_elements()};
  for (const OptimizerContents::Parameter& p : held.parameters)
    size.trained += TensorInfo{.name = p.name, .shape = p.shape}.count();
  for (const std::vector<TensorInfo>& tensors : {make_contents(held, /*saved=*/false).tensors, others.tensors()})
    for (const TensorInfo& tensor : tensors) size.stored_bytes += tensor.count() * size_of(tensor.dtype);
  return size;
}

}  // namespace internal

using namespace internal;

std::filesystem::path save_module(ZeroOptimizer& optimizer, const Untrained& untrained, const Mesh& mesh,
                                  const std::filesystem::path& run, const RunCounts& at, const Retention& retention) {
  CommunicatorPeers peers(mesh.world());
  return save_checkpoint(checkpoints_folder(run), at.step, saved_module(optimizer, untrained, mesh, {.counts = at}),
                         peers, {.retention = retention});
}

std::optional<RunCounts> resume_module(ZeroOptimizer& optimizer, const Untrained& untrained, const Mesh& mesh,
                                       const std::filesystem::path& run) {
  CommunicatorPeers peers(mesh.world());
  const auto folder = find_latest(checkpoints_folder(run), peers);
  if (!folder) return std::nullopt;
  load_module(optimizer, untrained, mesh, *folder);
  return read_module_state(*folder).counts;
}

}  // namespace partita
