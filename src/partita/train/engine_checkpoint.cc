#include "partita/train/engine_checkpoint.h"

#include <ATen/ops/from_blob.h>

#include <map>

#include "partita/base/error.h"

namespace partita::internal {
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

CheckpointContents make_state(const Engine& engine, Part part, int replica, int replicas) {
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
    if (!wanted(*owned.parameter)) continue;
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

CheckpointContents wanted_contents(const Engine& engine, Part part) { return make_state(engine, part, 0, 1); }
CheckpointContents saved_contents(const Engine& engine, Part part, int replica, int replicas) {
  return make_state(engine, part, replica, replicas);
}

}  // namespace partita::internal
