// Writes a model as a GGUF file, which llama.cpp runs, from any source of weights.
//
//   export_gguf("out/model.gguf", *source.weights, {.model = source.model, .q8_0 = true});
//
// Tensors are written one after the other in pieces of a few megabytes, so memory use does not grow with the model. The
// file appears only when complete, and replaces none. Runs in a single process.
#pragma once
#include <filesystem>

#include "partita/checkpoint/stored_types.h"
#include "partita/checkpoint/weight_source.h"
#include "partita/interop/gguf_format.h"
#include "partita/models/config.h"

namespace partita::internal {

struct GgufExportOptions {
  ModelConfig model;
  StoredTypes types = {};        // of matrices, by their Hugging Face names: f32, f16 or bf16
  bool q8_0 = false;             // in place of these, where llama.cpp allows it (gguf_type)
  GgufMetadata vocabulary = {};  // gguf_vocabulary.h
};

// Errors: those of NewFile and of the source's check; another element type; a value that overflows its type.
void export_gguf(const std::filesystem::path& path, const WeightSource& source, const GgufExportOptions& options);

}  // namespace partita::internal
