#include "partita/train/engine_checkpoint.h"

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/run_state.h"
#include "partita/train/checkpoint_pieces.h"

namespace partita {
namespace internal {
namespace {

// What a rank holds, or with `saved` its share of what is written: each box is stored once.
CheckpointContents make_state(const Engine& engine, Part part, int replica, int replicas, bool saved) {
  CheckpointContents state;
  std::vector<std::string> prefixes = {"model"};
  for (const std::string& name : engine.optimizer_state_names()) prefixes.push_back(name);

  const auto wanted = [&](const ParameterSpec& p) { return part == Part::all || p.adapter; };
  std::map<std::string, int> first;  // index of each parameter's first tensor
  for (const ParameterSpec& p : engine.parameters()) {
    if (!wanted(p)) continue;
    first[p.name] = static_cast<int>(state.tensors.size());
    for (size_t k = 0; k < (p.trainable ? prefixes.size() : 1); ++k)
      state.tensors.push_back({prefixes[k] + "/" + p.name, p.shape, engine.stored_dtype(p)});
  }
  const std::vector<OwnedBox> boxes = engine.owned_boxes();
  std::shared_ptr<const DeviceReads> reads;
  for (const OwnedBox& owned : boxes) {
    if (!reads) reads = device_reads(owned.values[0].device());
    if (!wanted(*owned.parameter) || (saved && !owned.primary)) continue;
    add_pieces(state, first.at(owned.parameter->name), owned,
               {.reads = reads, .replica = replica, .replicas = replicas, .constant = !owned.parameter->trainable});
  }
  return state;
}

}  // namespace

CheckpointContents wanted_contents(const Engine& engine, Part part) { return make_state(engine, part, 0, 1, false); }
CheckpointContents saved_contents(const Engine& engine, Part part) {
  const Communicator& replicas = *engine.zero().replica;
  return saved_contents(engine, part, replicas.rank(), replicas.size());
}
CheckpointContents saved_contents(const Engine& engine, Part part, int replica, int replicas) {
  return make_state(engine, part, replica, replicas, true);
}

}  // namespace internal

using namespace internal;

namespace {

Part part_of(const Engine& engine, const CheckpointModel& model) {
  const bool adapters = std::ranges::any_of(engine.parameters(), &ParameterSpec::adapter);
  if (adapters != (model.lora.rank > 0))
    fail("the engine has {}adapters, and CheckpointModel::lora has rank {}: give the LoraConfig of make_engine",
         adapters ? "" : "no ", model.lora.rank);
  return adapters ? Part::adapters : Part::all;
}

}  // namespace

std::filesystem::path save_engine(const Engine& engine, const CheckpointModel& model, const Mesh& mesh,
                                  const std::filesystem::path& run, EnginePosition at, const Retention& retention) {
  const Part part = part_of(engine, model);
  if (part == Part::adapters && model.base.empty())
    fail("save_engine: adapters are saved without their base model: set CheckpointModel::base to where it is");
  CheckpointContents contents = saved_contents(engine, part);
  contents.scalars = to_json(RunState{.step = at.step,
                                      .consumed_samples = at.consumed_samples,
                                      .skipped_steps = at.skipped_steps,
                                      .amax_history = engine.amax_history(),
                                      .model = model.model,
                                      .lora = model.lora,
                                      .base = model.base.empty() ? model.base : std::filesystem::absolute(model.base)});
  CommunicatorPeers peers(mesh.world());
  return save_checkpoint(run / "checkpoints", at.step, contents, peers, {.retention = retention});
}

std::optional<EnginePosition> resume_engine(Engine& engine, const CheckpointModel& model, const Mesh& mesh,
                                            const std::filesystem::path& run) {
  const Part part = part_of(engine, model);
  CommunicatorPeers peers(mesh.world());
  const auto folder = find_latest(run / "checkpoints", peers);
  if (!folder) return std::nullopt;
  const RunState saved = run_state(read_manifest(*folder), *folder);
  check_same_model(saved, model.model, model.lora, *folder);
  (void)load_checkpoint(*folder, wanted_contents(engine, part), peers);
  engine.publish_weights();
  engine.set_amax_history(saved.amax_history);
  return EnginePosition{
      .step = saved.step, .consumed_samples = saved.consumed_samples, .skipped_steps = saved.skipped_steps};
}

}  // namespace partita
