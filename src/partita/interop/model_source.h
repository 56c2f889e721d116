// Opens a trained model in any form: a Hugging Face folder, a PEFT adapter folder, a Partita run (its newest
// checkpoint) or a checkpoint, one of torch.distributed.checkpoint or Megatron-LM (trainer_checkpoint.h), a file of
// llm.c.
//
//   const ModelSource source = open_model("meta-llama/Llama-3.2-1B");
//   source.weights->check(engine.parameters());
//   load_weights(engine, source, seed);                      // train/build_model.h
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

// What open_model accepts, for messages and help.
inline constexpr const char* kModelPaths =
    "a Hugging Face or PEFT folder, the folder of a run (its newest checkpoint), a checkpoint, one of "
    "torch.distributed.checkpoint or Megatron-LM, or a file of llm.c";

struct ModelSource {
  std::filesystem::path path;  // the Hugging Face or PEFT folder, the checkpoint used, or the file
  ModelConfig model;
  LoraConfig lora;                              // rank 0: no adapters
  std::filesystem::path tokenizer;              // found next to the model or above it; empty: none found
  std::shared_ptr<const WeightSource> weights;  // with adapters: base and adapters, each under its own names
  // With adapters: the two parts separately; otherwise base is `weights`.
  std::shared_ptr<const WeightSource> base, adapters;
  std::filesystem::path base_path;                   // base model of the adapters; otherwise empty
  internal::StoredTypes stored_as;                   // types of the weights, or of those they were imported from
  internal::StoredTypes adapters_stored_as;          // types of the adapters
  std::vector<std::string> warnings;                 // one line per ignored setting of its configuration
  nlohmann::json tokens = nlohmann::json::object();  // token ids from Hugging Face's config.json (interop/hf_config.h)
  GenerationConfig generation;                       // with ids from config.json where it has none
  std::vector<std::filesystem::path> side_folders;   // folders with the model's small files (side_files.h), best first
  bool trained_here = false;                         // a Partita run or checkpoint, not a Hugging Face folder
};

// Logs the warnings. Call it on one rank; repeated calls for the same model log them only once.
void show_warnings(const ModelSource&);

// `base`: base model of the adapters; empty: the one that the run or adapter_config.json names. Errors: no model found
// (the message says what was looked for); those of the format; a base that does not exist, has adapters itself, or is
// given for a model without adapters. `config`: config.json of the model in another trainer's checkpoint, or its
// folder; empty: the one beside it. Error: it is given for another kind of folder.
[[nodiscard]] ModelSource open_model(const std::filesystem::path& path, const std::filesystem::path& base = {},
                                     const std::filesystem::path& config = {});

}  // namespace partita
