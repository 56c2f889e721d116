// Writes GPT-2 as a checkpoint of llm.c (llmc_format.h), from any source of weights.
//
//   export_llmc("out/gpt2_bf16.bin", *source.weights, source.model, DType::bf16);
//
// Memory use does not grow with the model. The file appears only when complete, and replaces none.
#pragma once
#include <filesystem>

#include "partita/base/dtype.h"
#include "partita/checkpoint/weight_source.h"
#include "partita/models/config.h"

namespace partita::internal {

// Errors: those of llmc_header, NewFile and the source's check; a value that overflows the type.
void export_llmc(const std::filesystem::path& path, const WeightSource& source, const ModelConfig& model, DType dtype);

}  // namespace partita::internal
