#include "partita/train/checkpoint_pieces.h"

#include <ATen/ops/from_blob.h>

#include <utility>

#include "partita/base/error.h"
#include "partita/device/device_stream.h"

namespace partita::internal {
namespace {

at::Tensor host(std::span<std::byte> bytes) { return at::from_blob(bytes.data(), {std::ssize(bytes)}, at::kByte); }

class TensorMemory final : public PieceMemory {
 public:
  TensorMemory(const at::Tensor& values, std::shared_ptr<const DeviceReads> reads)
      : bytes_(values.view(at::kByte)), reads_(std::move(reads)) {}

  void read(int64_t offset, std::span<std::byte> out) const override {
    reads_->read(part(offset, std::ssize(out)), out);
  }
  void write(int64_t offset, std::span<const std::byte> in) override {
    // from_blob has no overload for const data.
    part(offset, std::ssize(in)).copy_(host({const_cast<std::byte*>(in.data()), in.size()}));
  }

 private:
  [[nodiscard]] at::Tensor part(int64_t offset, int64_t count) const { return bytes_.narrow(0, offset, count); }
  at::Tensor bytes_;
  std::shared_ptr<const DeviceReads> reads_;
};

// Start of a replica's share of a box, in elements.
int64_t begin_of_share(const Box& box, int replica, int replicas) {
  const int64_t begin = box.count() * replica / replicas;
  return box.rows < replicas ? begin : begin / box.columns * box.columns;
}

}  // namespace

std::shared_ptr<PieceMemory> far_memory(const at::Tensor& values, const std::shared_ptr<const DeviceReads>& reads) {
  PARTITA_CHECK(values.dim() == 1 && values.is_contiguous() && reads != nullptr, "values are not dense, or unreadable");
  return std::make_shared<TensorMemory>(values, reads);
}

DeviceReads::DeviceReads(at::Device device)
    : copies_(make_copies(device)), after_(make_stream(device, StreamUse::compute)->record()) {}

void DeviceReads::read(const at::Tensor& bytes, std::span<std::byte> out) const {
  copies_->down(host(out), bytes, after_).wait();
}

std::shared_ptr<const DeviceReads> device_reads(at::Device device) {
  return device.is_cpu() ? nullptr : std::make_shared<DeviceReads>(device);
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
        piece.elsewhere = far_memory(values, options.reads);
      state.pieces.push_back(std::move(piece));
    }
    begin += box.count();
  }
}

}  // namespace partita::internal
