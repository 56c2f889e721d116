// An engine as a checkpoint sees it, and a model as its scalars describe it.
#pragma once
#include "partita/checkpoint/state.h"
#include "partita/engine/engine.h"
#include "partita/models/config.h"

namespace partita {

// Everything this rank wants to go on: "model/NAME" master weights, "adamw.m/NAME", "adamw.v/NAME". After loading call
// engine.publish_weights().
[[nodiscard]] State wanted_state(const Engine&);
// Its share of what is written: where `replicas` ranks hold the same slices, rank `replica` writes its equal part of each
// run, so that every element is written once.
[[nodiscard]] State saved_state(const Engine&, int replica, int replicas);
// The weights alone, for generation and evaluation.
[[nodiscard]] State wanted_weights(const Engine&);

[[nodiscard]] nlohmann::json to_json(const ModelConfig&);
// Error: a key is missing or of the wrong type; a kind that is not known.
[[nodiscard]] ModelConfig model_from_json(const nlohmann::json&);

}  // namespace partita
