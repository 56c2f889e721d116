// An engine as a checkpoint sees it: named global tensors and the runs of them on this rank.
#pragma once
#include "partita/checkpoint/state.h"
#include "partita/engine/engine.h"

namespace partita {

// Everything this rank wants to go on: "model/NAME" master weights, "adamw.m/NAME", "adamw.v/NAME". After loading call
// engine.publish_weights().
[[nodiscard]] State wanted_state(const Engine&);
// Its share of what is written: where `replicas` ranks hold the same slices, rank `replica` writes its equal part of each
// run, so that every element is written once.
[[nodiscard]] State saved_state(const Engine&, int replica, int replicas);
// The weights alone, for generation and evaluation.
[[nodiscard]] State wanted_weights(const Engine&);

}  // namespace partita
