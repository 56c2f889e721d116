#include "partita/train/module_checkpoint.h"

#include <ATen/core/grad_mode.h>

#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/stored_field.h"
#include "partita/module/optimizer_contents.h"
#include "partita/module/tensor_placement.h"
#include "partita/train/checkpoint_pieces.h"
#include "partita/train/trainer.h"

namespace partita {
namespace internal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "torch::nn module";
constexpr int64_t kMostSamples = int64_t{1} << 60;

// A tensor that every rank has whole: how a checkpoint describes it, and a dense copy in host memory.
struct Whole {
  TensorInfo info;
  at::Tensor values;
};

// Types that checkpoints do not have are stored as bytes.
Whole whole_of(const NamedParameter& p) {
  if (const TensorPlacement* placement = placement_of(p.tensor); placement != nullptr && placement->divided())
    fail(
        "{} is frozen and divided over tensor-parallel ranks, which checkpoints of modules do not store: give it the "
        "role replicate, or leave frozen parameters out by {{buffers(module)}}",
        p.name);
  if (!p.tensor.defined()) fail("tensor {} is undefined: leave it out of what is saved besides the parameters", p.name);
  const at::Tensor flat = p.tensor.detach().to(at::kCPU).contiguous().reshape({-1}).clone();
  Whole whole{{"untrained/" + p.name, p.tensor.sizes().vec()}, flat};
  switch (p.tensor.scalar_type()) {
    case at::kFloat:
      whole.info.dtype = DType::fp32;
      break;
    case at::kBFloat16:
      whole.info.dtype = DType::bf16;
      break;
    case at::kHalf:
      whole.info.dtype = DType::fp16;
      break;
    case at::kInt:
      whole.info.dtype = DType::int32;
      break;
    case at::kLong:
      whole.info.dtype = DType::int64;
      break;
    default:
      whole.info.dtype = DType::uint8;
      whole.info.shape = {static_cast<int64_t>(flat.nbytes())};
  }
  return whole;
}

std::vector<NamedParameter> all_of(const Untrained& untrained) {
  std::vector<NamedParameter> all = untrained.buffers;
  all.insert(all.end(), untrained.frozen.begin(), untrained.frozen.end());
  return all;
}

std::vector<Whole> wholes_of(const Untrained& untrained) {
  std::vector<Whole> all;
  std::set<std::string> names;
  for (const NamedParameter& p : all_of(untrained)) {
    if (!names.insert(p.name).second) fail("two tensors that are saved besides the parameters are called {}", p.name);
    all.push_back(whole_of(p));
  }
  return all;
}

// What this rank holds, or with `saved` its share of what is written: each element is stored once.
CheckpointContents make_contents(const OptimizerContents& optimizer, const std::vector<Whole>& wholes, bool saved,
                                 int rank) {
  CheckpointContents state;
  std::map<std::string, int> first;  // index of each parameter's first tensor
  for (const OptimizerContents::Parameter& p : optimizer.parameters) {
    first[p.name] = static_cast<int>(state.tensors.size());
    state.tensors.push_back({"model/" + p.name, p.shape, p.dtype});
    for (const std::string& kind : p.states) state.tensors.push_back({kind + "/" + p.name, p.shape, p.dtype});
  }
  for (const OwnedBox& owned : optimizer.boxes) {
    if (saved && !owned.primary) continue;
    add_pieces(state, first.at(owned.parameter->name), owned, saved ? optimizer.replica : 0,
               saved ? optimizer.replicas : 1);
  }
  for (const Whole& whole : wholes) {
    if (!saved || rank == 0)
      state.pieces.push_back({.tensor = static_cast<int>(state.tensors.size()),
                              .box = whole_box(whole.info.shape),
                              .data = static_cast<std::byte*>(whole.values.data_ptr())});
    state.tensors.push_back(whole.info);
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

fs::path save_module(ZeroOptimizer& optimizer, const Untrained& untrained, Peers& peers, const fs::path& run,
                     ModuleState state, const Retention& retention) {
  const OptimizerContents held = optimizer_contents(optimizer);
  const std::vector<Whole> wholes = wholes_of(untrained);
  CheckpointContents contents = make_contents(held, wholes, /*saved=*/true, peers.rank());
  state.steps = held.steps;
  state.updates = held.updates;
  contents.scalars = to_json(state);
  return save_checkpoint(checkpoints_folder(run), state.counts.step, contents, peers, retention);
}

void load_module(ZeroOptimizer& optimizer, const Untrained& untrained, Peers& peers, const fs::path& folder) {
  const OptimizerContents held = optimizer_contents(optimizer);
  const std::vector<Whole> wholes = wholes_of(untrained);
  const ModuleState state = read_module_state(folder);
  (void)load_checkpoint(folder, make_contents(held, wholes, /*saved=*/false, peers.rank()), peers);
  take_contents(optimizer, state.steps, state.updates);
  const at::NoGradGuard none;
  const std::vector<NamedParameter> all = all_of(untrained);
  for (size_t i = 0; i < all.size(); ++i) all[i].tensor.copy_(wholes[i].values.view(all[i].tensor.sizes()));
}

int64_t module_checkpoint_bytes(ZeroOptimizer& optimizer, const Untrained& untrained) {
  int64_t bytes = 0;
  const CheckpointContents contents = make_contents(optimizer_contents(optimizer), wholes_of(untrained), false, 0);
  for (const TensorInfo& tensor : contents.tensors) bytes += tensor.count() * size_of(tensor.dtype);
  return bytes;
}

}  // namespace internal

using namespace internal;
namespace {

// Rank 0 stores what is not trained, and has run the first stage only.
void require_stored(const Untrained& untrained, const Mesh& mesh) {
  if (mesh.pipeline().size() > 1 && !(untrained.buffers.empty() && untrained.frozen.empty()))
    fail(
        "checkpoints of a module in a pipeline do not store buffers and frozen parameters: pass {{}} for them, and "
        "save "
        "those of each stage yourself");
}

}  // namespace

std::filesystem::path save_module(ZeroOptimizer& optimizer, const Untrained& untrained, const Mesh& mesh,
                                  const std::filesystem::path& run, const RunCounts& at, const Retention& retention) {
  require_stored(untrained, mesh);
  CommunicatorPeers peers(mesh.world());
  return save_module(optimizer, untrained, peers, run, {.counts = at}, retention);
}

std::optional<RunCounts> resume_module(ZeroOptimizer& optimizer, const Untrained& untrained, const Mesh& mesh,
                                       const std::filesystem::path& run) {
  require_stored(untrained, mesh);
  CommunicatorPeers peers(mesh.world());
  const auto folder = find_latest(checkpoints_folder(run), peers);
  if (!folder) return std::nullopt;
  load_module(optimizer, untrained, peers, *folder);
  return read_module_state(*folder).counts;
}

}  // namespace partita
