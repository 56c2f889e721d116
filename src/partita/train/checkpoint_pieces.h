// Pieces of a checkpoint from what a rank holds of sharded parameters.
//
//   const auto reads = device_reads(device);
//   for (const OwnedBox& owned : engine.owned_boxes())
//     add_pieces(state, first.at(owned.parameter->name), owned, {.reads = reads});
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "partita/checkpoint/contents.h"
#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/engine/optimizer_shards.h"

namespace partita::internal {

// Reads of a GPU's memory: of values as the work that was given to the stream for computing before leaves them, at the
// same time as later work, and from any thread, but one at a time. For the pieces of one checkpoint.
class DeviceReads {
 public:
  explicit DeviceReads(at::Device);
  void read(const at::Tensor& bytes, std::span<std::byte> out) const;

 private:
  std::unique_ptr<Copies> copies_;
  Event after_;
};
// Lets a checkpoint copy the values of a tensor, which is dense.
[[nodiscard]] std::shared_ptr<PieceMemory> far_memory(const at::Tensor& values,
                                                      const std::shared_ptr<const DeviceReads>&);
// Null for the CPU.
[[nodiscard]] std::shared_ptr<const DeviceReads> device_reads(at::Device);

struct PieceOptions {
  std::shared_ptr<const DeviceReads> reads;  // required for values on a GPU
  int replica = 0, replicas = 1;             // this rank among those that hold the same box: each stores an equal share
  bool constant = false;                     // Piece::constant
};
// Adds the values of the box, whose tensors are `first` and those after it. Shares begin at rows if there are enough.
void add_pieces(CheckpointContents&, int first, const OwnedBox&, const PieceOptions&);

}  // namespace partita::internal
