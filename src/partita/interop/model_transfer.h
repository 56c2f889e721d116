// Converts models to and from the formats of other programs, in one process and bounded memory; used by `partita
// import` and `partita export`.
//
//   import_model("meta-llama/Llama-3.2-1B", "runs/llama");     // runs/llama/checkpoints/step-00000000
//   export_model("runs/llama", "out/llama", {});               // what transformers loads
//   export_model("runs/llama", "out/llama.gguf", {});          // what llama.cpp loads
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "partita/base/dtype.h"
#include "partita/base/enum_names.h"

namespace partita {

// Creates a run folder usable by every command: RUN/checkpoints/step-00000000 with the weights in fp32, and in RUN the
// tokenizer and generation files. Returns the checkpoint. Errors: those of open_model; `model` has adapters, or is a
// run or checkpoint of Partita; its weights do not match its config.json, by name; `run` already exists; not enough
// space. `config`: as for open_model.
std::filesystem::path import_model(const std::filesystem::path& model, const std::filesystem::path& run,
                                   const std::filesystem::path& config = {});

// automatic: a name that ends in .gguf means gguf, .bin means llmc, in any case of letters; any other a Hugging Face
// folder.
enum class ExportFormat : uint8_t { automatic, hf, gguf, llmc };
template <>
struct EnumNames<ExportFormat> {
  static constexpr std::array kNames = {"auto", "hf", "gguf", "llmc"};
};
// `format`, or what the name means.
[[nodiscard]] ExportFormat export_format(const std::filesystem::path& out, ExportFormat format);

struct ExportOptions {
  ExportFormat format = ExportFormat::automatic;
  // Type of the tensors: fp32, bf16 or fp16 (not in llm.c's files). Empty: as imported, otherwise fp32. What llama.cpp
  // requires in fp32 is so in a GGUF file.
  std::optional<DType> dtype;
  bool q8_0 = false;           // GGUF, in place of dtype: matrices in blocks of 8-bit integers
  bool merge = false;          // merge adapters into the model; otherwise export only the adapters, in PEFT's format
  std::filesystem::path base;  // base model of the adapters (open_model)
  int64_t shard_bytes = 5'000'000'000;  // Hugging Face: of the largest file
};

// `path`: anything that open_model accepts. `out`: the folder or file to create. Errors: those of open_model and of the
// exports; merge without adapters; adapters alone, or a type, in a format that has none.
void export_model(const std::filesystem::path& path, const std::filesystem::path& out, const ExportOptions&);

}  // namespace partita
