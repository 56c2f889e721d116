// A trained model, wherever it lies: a Hugging Face folder, a run of ours (its newest checkpoint is taken) or a checkpoint.
//
//   const ModelSource source = open_model("meta-llama/Llama-3.2-1B");
//   source.weights->check(engine.parameters());
//   engine.set_weights([&](const ParameterSpec& p, int64_t begin, std::span<float> out) {
//     source.weights->read(p, begin, out);
//   });
#pragma once
#include <filesystem>
#include <memory>

#include "partita/checkpoint/weight_source.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita {

struct ModelSource {
  std::filesystem::path path;  // the Hugging Face folder, or the checkpoint that was taken
  ModelConfig model;
  LoraConfig lora;                        // rank 0: no adapters
  std::filesystem::path tokenizer;        // beside or above it; empty: none found
  std::unique_ptr<WeightSource> weights;  // of a model with adapters: base and adapters, under their own names
};

// Errors: nothing of the kind there (says what was looked for); those of the format; a checkpoint of adapters whose base
// is not where the run had it.
[[nodiscard]] ModelSource open_model(const std::filesystem::path& path);

}  // namespace partita
