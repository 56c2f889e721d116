// Converts models to and from Hugging Face folders, in one process and bounded memory; used by `partita import` and
// `partita export`.
//
//   import_model("meta-llama/Llama-3.2-1B", "runs/llama");     // runs/llama/checkpoints/step-00000000
//   export_model("runs/llama", "out/llama", {});               // what transformers loads
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "partita/base/dtype.h"

namespace partita {

// Creates a run folder usable by every command: RUN/checkpoints/step-00000000 with the weights in fp32, and in RUN the
// tokenizer and generation files. Returns the checkpoint. Errors: `folder` is not a Hugging Face folder nor another
// trainer's checkpoint, or has adapters; its weights do not match its config.json, by name; `run` already exists; not
// enough space. `config`: as for open_model.
std::filesystem::path import_model(const std::filesystem::path& folder, const std::filesystem::path& run,
                                   const std::filesystem::path& config = {});

struct ExportOptions {
  // Type of all tensors: fp32, bf16 or fp16. Empty: as imported, otherwise fp32.
  std::optional<DType> dtype;
  bool merge = false;          // merge adapters into the model; otherwise export only the adapters, in PEFT's format
  std::filesystem::path base;  // base model of the adapters (open_model)
  int64_t shard_bytes = 5'000'000'000;
};

// `path`: anything that open_model accepts. Errors: those of open_model and of the exports; merge without adapters.
void export_model(const std::filesystem::path& path, const std::filesystem::path& folder, const ExportOptions&);

}  // namespace partita
