// An engine as a checkpoint sees it: named global tensors and the boxes of them on this rank.
#pragma once
#include "partita/checkpoint/contents.h"
#include "partita/engine/engine.h"

namespace partita::internal {

// all: every weight of the model. adapters: the adapters alone, frozen ones too, which is what a run with adapters has
// of its own.
enum class Part : uint8_t { all, adapters };

// The values of a tensor, dense and on any device, as a checkpoint copies them.
[[nodiscard]] std::shared_ptr<PieceMemory> piece_memory(const at::Tensor&);

// What this rank wants to go on: "model/NAME" master weights, and of trained ones the optimizer's "adamw.m/NAME",
// "adamw.v/NAME". After loading call engine.publish_weights().
[[nodiscard]] CheckpointContents wanted_contents(const Engine&, Part);
// Its share of what is written: where `replicas` ranks hold the same slices, rank `replica` writes its equal part of
// each box, so that every element is written once.
[[nodiscard]] CheckpointContents saved_contents(const Engine&, Part, int replica, int replicas);

}  // namespace partita::internal
