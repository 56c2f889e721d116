// Writes folders that `transformers` and PEFT load: a model or adapters, from any source of weights.
//
//   export_hf_model("out/gpt2", *source.weights, {.model = source.model, .types = {.usual = ElementType::bf16}});
//   export_peft_adapter("out/adapter", *source.adapters, {.model = source.model}, lora, "gpt2");
//
// Tensors are written one after the other in pieces of a few megabytes (GPT-2's transposed ones whole), so memory use
// does not grow with the model. Each tensor has its own element type, so that imported tensors are exported with the
// same bytes. A tied token table is written once, under the embedding's name, as transformers does. A value that
// overflows its type is an error. The folder appears only when complete. Runs in a single process.
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
  StoredTypes types = {};                                   // per tensor: f32, f16 or bf16
  nlohmann::json tokens = nlohmann::json::object();         // fields to copy into config.json (hf_config.h)
  std::map<std::string, std::filesystem::path> files = {};  // files to copy: name in the folder -> source path
  std::map<std::string, std::string> texts = {};            // files to write: name -> content
  int64_t shard_bytes = 5'000'000'000;                      // larger models are sharded, with an index
};

// Writes config.json and model.safetensors, or its shards with model.safetensors.index.json. Errors: those of NewFolder
// and of the source's check; another element type; not enough space (checked first).
void export_hf_model(const std::filesystem::path& folder, const WeightSource&, const HfExportOptions&);

// Writes adapter_config.json and adapter_model.safetensors. `base`: the base model that PEFT will load.
void export_peft_adapter(const std::filesystem::path& folder, const WeightSource& adapters, const HfExportOptions&,
                         const LoraConfig&, std::string_view base);

}  // namespace partita::internal
