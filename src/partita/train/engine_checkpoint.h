// An engine's state for checkpointing: named global tensors and the boxes of them that this rank holds.
#pragma once
#include "partita/checkpoint/contents.h"
#include "partita/engine/engine.h"

namespace partita::internal {

// all: every weight of the model. adapters: only the adapters, including frozen ones, which is all that a run with
// adapters needs to save.
enum class Part : uint8_t { all, adapters };

// Lets a checkpoint copy the values of a tensor, which is dense and on any device.
[[nodiscard]] std::shared_ptr<PieceMemory> piece_memory(const at::Tensor&);

// What this rank must load to resume: master weights as "model/NAME" and, for trained parameters, optimizer states
// "adamw.m/NAME" and "adamw.v/NAME". Call engine.publish_weights() after loading.
[[nodiscard]] CheckpointContents wanted_contents(const Engine&, Part);
// This rank's part of a save. If `replicas` ranks hold the same shards, rank `replica` writes an equal part of each
// box, so that every element is written once.
[[nodiscard]] CheckpointContents saved_contents(const Engine&, Part, int replica, int replicas);

}  // namespace partita::internal
