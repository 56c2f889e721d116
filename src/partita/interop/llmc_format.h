// The model checkpoints of llm.c (github.com/karpathy/llm.c, train_gpt2.py: write_model): GPT-2 in one file. Pure.
//
//   const LlmcHeader header = parse_llmc(file.bytes(), path);
//   for (const LlmcTensor& t : llmc_tensors(header)) ...   // t.parameter is at t.offset elements from kLlmcHeaderBytes
//
// A file is 256 numbers (int32, little-endian): magic 20240326, version, positions, vocabulary, layers, heads, width,
// padded vocabulary, zeros; then the tensors in fp32 (version 3) or bf16 (version 5): token table, positions, then each
// kind of a layer's parameters for all layers, last the final norm. The token table is padded with rows of zeros to a
// multiple of 128. Matrices are [out, in], as here. The head is tied, the MLP four times as wide as the model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/models/config.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

inline constexpr int64_t kLlmcHeaderBytes = 1024;

struct LlmcHeader {
  ModelConfig model;
  DType dtype = DType::fp32;  // fp32 or bf16
  int64_t padded_vocab = 0;   // rows of the token table in the file
};

struct LlmcTensor {
  ParameterSpec parameter;  // ours, with name and shape
  int64_t offset = 0;       // of its first element, in elements
  int64_t padding = 0;      // elements behind it that are zero
};

// In the order of the file, without gaps.
[[nodiscard]] std::vector<LlmcTensor> llmc_tensors(const LlmcHeader& header);
// Of the whole file.
[[nodiscard]] int64_t llmc_bytes(const LlmcHeader& header);

// Reads the header of a complete file. Error, which names the file: another format (llm.c's Llama files are named), a
// version without padded vocabulary, sizes that make no model, another file size than they require.
[[nodiscard]] LlmcHeader parse_llmc(std::span<const std::byte> file, const std::filesystem::path& path);

// The header of a model. Error: a model that llm.c cannot compute (Llama, a head of its own, another MLP width or
// epsilon), with the setting; a type other than fp32 and bf16.
[[nodiscard]] LlmcHeader llmc_header(const ModelConfig& model, DType dtype);
// Its kLlmcHeaderBytes bytes.
[[nodiscard]] std::string llmc_header_text(const LlmcHeader& header);

}  // namespace partita::internal
