// Pieces of a checkpoint from what a rank holds of sharded parameters.
//
//   for (const OwnedBox& owned : engine.owned_boxes()) add_pieces(state, first.at(owned.parameter->name), owned);
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "partita/checkpoint/contents.h"
#include "partita/engine/optimizer_shards.h"

namespace partita::internal {

// Lets a checkpoint copy the values of a tensor, which is dense and on a GPU: as the work that was given to the
// device's stream for computing leaves them, and at the same time as later work. From any thread.
[[nodiscard]] std::shared_ptr<PieceMemory> piece_memory(const at::Tensor&);

struct PieceOptions {
  int replica = 0, replicas = 1;  // this rank among those that hold the same box: each stores an equal share
  bool constant = false;          // Piece::constant
};
// Adds the values of the box, whose tensors are `first` and those after it. Shares begin at rows if there are enough.
void add_pieces(CheckpointContents&, int first, const OwnedBox&, const PieceOptions& = {});

}  // namespace partita::internal
