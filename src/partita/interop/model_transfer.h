// Models to and from Hugging Face's folders, in one process and in bounded memory: what `partita import` and `partita
// export` do.
//
//   import_model("meta-llama/Llama-3.2-1B", "runs/llama");     // runs/llama/checkpoints/step-00000000
//   export_model("runs/llama", "out/llama", {});               // what transformers loads
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "partita/base/dtype.h"

namespace partita {

// Writes a run's folder that everything here takes: RUN/checkpoints/step-00000000 with the weights in fp32, and in RUN
// the files of the tokenizer and of generation. Returns the checkpoint. Errors: `folder` is no Hugging Face folder or
// has adapters; its weights do not fit its config.json, by name; there is something at `run` already; no room.
std::filesystem::path import_model(const std::filesystem::path& folder, const std::filesystem::path& run);

struct ExportOptions {
  // fp32, bf16 or fp16, of all tensors. None: each as it was imported, otherwise fp32.
  std::optional<DType> dtype;
  bool merge = false;          // adapters are worked into the model; otherwise they are written alone, in PEFT's format
  std::filesystem::path base;  // of adapters (open_model)
  int64_t shard_bytes = 5'000'000'000;
};

// `path`: whatever open_model takes. Errors: those of open_model and of the exports; merge without adapters.
void export_model(const std::filesystem::path& path, const std::filesystem::path& folder, const ExportOptions&);

}  // namespace partita
