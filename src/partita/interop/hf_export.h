// Writes what `transformers` and PEFT load: a model's folder, or one of adapters, from any source of weights.
//
//   export_hf_model("out/gpt2", *source.weights, {.model = source.model, .types = {.usual = ElementType::bf16}});
//   export_peft_adapter("out/adapter", *source.adapters, {.model = source.model}, lora, "gpt2");
//
// Tensors are written one after the other, each in pieces of some megabytes (GPT-2's transposed ones whole), so memory
// does not grow with the model. Each tensor is written in a type of its own, so that what was imported comes out with
// the same bytes; a tied model's token table is written once, under the embedding's name, as transformers does. A
// number that is too large for the type it would be rounded to is an error. The folder appears when it is complete. One
// process.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "partita/checkpoint/stored_types.h"
#include "partita/checkpoint/weight_source.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita::internal {

struct HfExportOptions {
  ModelConfig model;
  StoredTypes types = {};                                   // of each tensor: f32, f16 or bf16
  nlohmann::json tokens = nlohmann::json::object();         // fields of config.json that are handed on (hf_config.h)
  std::map<std::string, std::filesystem::path> files = {};  // copied as they are: name there, path here
  std::map<std::string, std::string> texts = {};            // written: name, content
  int64_t shard_bytes = 5'000'000'000;                      // a larger model lies in several files with an index
};

// config.json and model.safetensors, or its shards with model.safetensors.index.json. Errors: those of NewFolder and of
// the source's check; another element type; no room (checked first).
void export_hf_model(const std::filesystem::path& folder, const WeightSource&, const HfExportOptions&);

// adapter_config.json and adapter_model.safetensors. `base`: what PEFT shall load below it.
void export_peft_adapter(const std::filesystem::path& folder, const WeightSource& adapters, const HfExportOptions&,
                         const LoraConfig&, std::string_view base);

}  // namespace partita::internal
