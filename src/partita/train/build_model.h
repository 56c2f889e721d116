// From a configuration to an engine.
#pragma once
#include <memory>
#include <vector>

#include "partita/config/config.h"
#include "partita/engine/engine.h"
#include "partita/interop/model_source.h"

namespace partita {

// What blocks keep from forward to backward under a mode of recomputation.
[[nodiscard]] Keep keep_of(Recompute);

// Of a layer in the middle, with its adapters.
[[nodiscard]] int64_t parameters_per_layer(const Config&);

// Whether forward and backward of a run are recorded as a graph (device/graph_runner.h). Pure. Error: kernels.cuda_graph asks
// for it where it cannot be.
[[nodiscard]] bool records_steps(const Config&, int64_t parameters_per_layer, int64_t ranks, bool on_gpu);

// What a training run's engine is made from. Pure. Errors: as records_steps.
[[nodiscard]] EngineOptions training_options(const Config&, int64_t ranks, at::Device);
[[nodiscard]] std::vector<std::unique_ptr<Block>> training_blocks(const Config&, at::Device);
// Likewise the engine of evaluation and generation.
[[nodiscard]] EngineOptions inference_options(const ModelConfig&, DType compute, Shape, at::Device);

// The engine of a training run on this rank; weights are not set yet. Errors: train.freeze names what is not there;
// offload on the CPU; as records_steps; sizes that products in 8 bits do not have.
[[nodiscard]] std::unique_ptr<Engine> build_training_engine(const Config&, const Zero&, Communicator& data,
                                                            at::Device = at::kCPU);

// An engine that computes losses and logits, in batches of `shape`. It has memory for weights and for one block's
// activations at a time, none for training.
[[nodiscard]] std::unique_ptr<Engine> build_inference_engine(const ModelConfig&, const LoraConfig&, DType compute,
                                                             Shape, const Zero&, Communicator& data,
                                                             at::Device = at::kCPU);

// The engine's weights from the source; adapters that it does not have begin as those of seed. Errors: as
// WeightSource::check.
void load_weights(Engine&, const ModelSource&, uint64_t seed);

// What the tokenizer decides: data.tokenizer itself where it is empty and model.from has one, model.vocab_size where it
// is
// 0. Error: the tokenizer has more tokens than the model.
void complete_model(Config&);

}  // namespace partita
