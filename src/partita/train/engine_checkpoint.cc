#include "partita/train/engine_checkpoint.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/run_state.h"

namespace partita {
namespace internal {
namespace {

class TensorMemory final : public PieceMemory {
 public:
  explicit TensorMemory(const at::Tensor& values) : bytes_(values.view(at::kByte)) {}

  void read(int64_t offset, std::span<std::byte> out) const override { host(out).copy_(part(offset, std::ssize(out))); }
  void write(int64_t offset, std::span<const std::byte> in) override {
    // from_blob has no overload for const data.
    part(offset, std::ssize(in)).copy_(host({const_cast<std::byte*>(in.data()), in.size()}));
  }

 private:
  [[nodiscard]] at::Tensor part(int64_t offset, int64_t count) const { return bytes_.narrow(0, offset, count); }
  static at::Tensor host(std::span<std::byte> bytes) {
    return at::from_blob(bytes.data(), {std::ssize(bytes)}, at::kByte);
  }

  at::Tensor bytes_;
};

// Start of a replica's share of a box, in elements; at a row boundary if there are enough rows.
int64_t begin_of_share(const Box& box, int replica, int replicas) {
  const int64_t begin = box.count() * replica / replicas;
  return box.rows < replicas ? begin : begin / box.columns * box.columns;
}

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
  for (const OwnedBox& owned : engine.owned_boxes()) {
    if (!wanted(*owned.parameter) || (saved && !owned.primary)) continue;
    int64_t begin = begin_of_share(owned.box, replica, replicas);
    const int64_t count = begin_of_share(owned.box, replica + 1, replicas) - begin;
    for (const Box& box : boxes_of_run(owned.box, begin, count)) {
      for (size_t k = 0; k < owned.values.size(); ++k) {
        const int tensor = first.at(owned.parameter->name) + static_cast<int>(k);
        const at::Tensor values = owned.values[k].narrow(0, begin, box.count());
        Piece piece{.tensor = tensor, .box = box};
        if (values.is_cpu())
          piece.data = static_cast<std::byte*>(values.data_ptr());
        else
          piece.elsewhere = piece_memory(values);
        state.pieces.push_back(std::move(piece));
      }
      begin += box.count();
    }
  }
  return state;
}

}  // namespace

std::shared_ptr<PieceMemory> piece_memory(const at::Tensor& values) {
  PARTITA_CHECK(values.dim() == 1 && values.is_contiguous(), "values are not dense");
  return std::make_shared<TensorMemory>(values);
}

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
  return save_checkpoint(run / "checkpoints", at.step, contents, peers, retention);
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
