// From a configuration to an engine.
#pragma once
#include <memory>

#include "partita/engine/engine.h"
#include "partita/train/config.h"

namespace partita {

// The engine of a training run on this rank; weights are not set yet.
[[nodiscard]] std::unique_ptr<Engine> build_training_engine(const Config&, const Zero&, Communicator& data);

// An engine for inference alone, on one process: no memory for training beyond the weights' own.
[[nodiscard]] std::unique_ptr<Engine> build_inference_engine(const ModelConfig&, Communicator& self);

// model.vocab_size filled in from the tokenizer where it is 0. Error: the tokenizer has more tokens than the model.
void complete_model(Config&);

}  // namespace partita
