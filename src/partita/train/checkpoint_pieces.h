// Pieces of a checkpoint from what a rank holds of sharded parameters.
//
//   for (const OwnedBox& owned : engine.owned_boxes()) add_pieces(state, first.at(owned.parameter->name), owned);
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "partita/checkpoint/contents.h"
#include "partita/engine/optimizer_shards.h"

namespace partita::internal {

// Lets a checkpoint copy the values of a tensor, which is dense and on any device.
[[nodiscard]] std::shared_ptr<PieceMemory> piece_memory(const at::Tensor&);

// Adds the values of the box, whose tensors are `first` and those after it, as far as `replica` of `replicas` ranks
// that hold the same box stores them: an equal share, at row boundaries if there are enough rows.
void add_pieces(CheckpointContents&, int first, const OwnedBox&, int replica = 0, int replicas = 1);

}  // namespace partita::internal
