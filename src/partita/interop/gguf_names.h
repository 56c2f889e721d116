// The tensors of a GGUF file and where their rows are in our parameters. Pure.
//
//   for (const GgufTensor& t : gguf_tensors(model)) ...    // rows of t.box of t.parameter are the tensor t.name
//
// Matrices are [out, in] there as here. llama.cpp rotates adjacent channels of Llama's queries and keys as pairs
// (2i and 2i + 1), Hugging Face and we the channels of a head's two halves (i and i + width / 2): the rows of each head
// are interleaved. The matrix of a tied head is left out: llama.cpp takes the token table.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/stored_types.h"
#include "partita/interop/gguf_format.h"
#include "partita/models/config.h"
#include "partita/nn/box.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

struct GgufTensor {
  std::string name;                    // "blk.0.attn_q.weight"
  std::string hugging_face;            // the same tensor's name there
  ParameterSpec parameter;             // ours, with name and shape
  Box box;                             // of the parameter
  std::vector<int64_t> shape;          // [rows, columns] or [elements]
  int64_t interleaved_head_width = 0;  // Llama's queries and keys: channels per head; otherwise 0
};

// In the order of our parameters. Errors: those of validate(model).
[[nodiscard]] std::vector<GgufTensor> gguf_tensors(const ModelConfig& model);

// The row of our head that is row `row` of the file's, both counted from the first row of the tensor.
[[nodiscard]] int64_t row_of_interleaved(int64_t row, int64_t head_width);

// The element type of a tensor: f32 for vectors and GPT-2's positions, which llama.cpp requires; otherwise that of
// `types`, by Hugging Face's name; with `q8_0` that, where rows are whole blocks, and f16 elsewhere, as in llama.cpp.
[[nodiscard]] GgufType gguf_type(const GgufTensor& tensor, const StoredTypes& types, bool q8_0);

// The divisors of Llama's rotary frequencies [head_size / 2], tensor kGgufRopeDivisors: Llama 3's scaling. Empty: none.
[[nodiscard]] std::vector<float> gguf_rope_divisors(const ModelConfig& model);
inline constexpr std::string_view kGgufRopeDivisors = "rope_freqs.weight";

}  // namespace partita::internal
