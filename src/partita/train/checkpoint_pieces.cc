#include "partita/train/checkpoint_pieces.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "partita/base/error.h"
#include "partita/device/copies.h"
#include "partita/device/device_stream.h"

namespace partita::internal {
namespace {

class TensorMemory final : public PieceMemory {
 public:
  explicit TensorMemory(const at::Tensor& values)
      : bytes_(values.view(at::kByte)),
        copies_(make_copies(values.device())),
        after_(make_stream(values.device(), StreamUse::compute)->record()) {}

  void read(int64_t offset, std::span<std::byte> out) const override {
    copies_->down(host(out), part(offset, std::ssize(out)), after_).wait();
  }
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
  std::unique_ptr<Copies> copies_;
  Event after_;  // the values are complete
};

// Start of a replica's share of a box, in elements.
int64_t begin_of_share(const Box& box, int replica, int replicas) {
  const int64_t begin = box.count() * replica / replicas;
  return box.rows < replicas ? begin : begin / box.columns * box.columns;
}

}  // namespace

std::shared_ptr<PieceMemory> piece_memory(const at::Tensor& values) {
  PARTITA_CHECK(values.dim() == 1 && values.is_contiguous(), "values are not dense");
  return std::make_shared<TensorMemory>(values);
}

void add_pieces(CheckpointContents& state, int first, const OwnedBox& owned, const PieceOptions& options) {
  int64_t begin = begin_of_share(owned.box, options.replica, options.replicas);
  const int64_t count = begin_of_share(owned.box, options.replica + 1, options.replicas) - begin;
  for (const Box& box : boxes_of_run(owned.box, begin, count)) {
    for (size_t k = 0; k < owned.values.size(); ++k) {
      const at::Tensor values = owned.values[k].narrow(0, begin, box.count());
      Piece piece{.tensor = first + static_cast<int>(k), .box = box, .constant = options.constant};
      if (values.is_cpu())
        piece.data = static_cast<std::byte*>(values.data_ptr());
      else
        piece.elsewhere = piece_memory(values);
      state.pieces.push_back(std::move(piece));
    }
    begin += box.count();
  }
}

}  // namespace partita::internal
