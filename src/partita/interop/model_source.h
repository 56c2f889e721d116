// A trained model, wherever it lies: a Hugging Face folder, a PEFT folder of adapters, a run of ours (its newest
// checkpoint is taken) or a checkpoint.
//
//   const ModelSource source = open_model("meta-llama/Llama-3.2-1B");
//   source.weights->check(engine.parameters());
//   engine.set_weights(from_host([&](const ParameterSpec& p, const Box& box, std::span<float> out) {
//     source.weights->read(p, box, out);
//   }));
#pragma once
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "partita/checkpoint/stored_types.h"
#include "partita/checkpoint/weight_source.h"
#include "partita/interop/generation_config.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita {

struct ModelSource {
  std::filesystem::path path;  // the folder of Hugging Face's or PEFT's files, or the checkpoint that was taken
  ModelConfig model;
  LoraConfig lora;                              // rank 0: no adapters
  std::filesystem::path tokenizer;              // beside or above it; empty: none found
  std::shared_ptr<const WeightSource> weights;  // of a model with adapters: base and adapters, under their own names
  // Of a model with adapters, alone; else base is `weights`.
  std::shared_ptr<const WeightSource> base, adapters;
  std::filesystem::path base_path;                   // where the base of adapters lies; else empty
  internal::StoredTypes stored_as;                   // of the weights, or of those they were imported from
  internal::StoredTypes adapters_stored_as;          // of adapters alone
  std::vector<std::string> warnings;                 // a line each: what of its configuration was passed over
  nlohmann::json tokens = nlohmann::json::object();  // ids that Hugging Face's config.json holds (interop/hf_config.h)
  GenerationConfig generation;                       // with the ids of config.json where it has none itself
  std::vector<std::filesystem::path> side_folders;   // where the model's small files are (side_files.h), the best first
  bool trained_here = false;                         // a run or checkpoint of ours, not a folder of Hugging Face's
};

// To the log: by one rank, and once, however often the model is opened.
void show_warnings(const ModelSource&);

// `base`: where the base of adapters lies; empty: where the run had it, or adapter_config.json says. Errors: nothing of
// the kind there (says what was looked for); those of the format; a base that is not there or has adapters itself, or
// is given for a model without adapters.
[[nodiscard]] ModelSource open_model(const std::filesystem::path& path, const std::filesystem::path& base = {});

}  // namespace partita
