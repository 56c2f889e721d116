// Maps our parameters to the tensors of Hugging Face folders: names, shapes, rows, and which are transposed. Pure.
//
//   for (const HfParameter& p : hf_parameters(model))
//     for (const HfPiece& piece : p.pieces) ...   // rows [row, row + rows) of p are the tensor piece.name
//
// Parameters are ours (docs/architecture.md: "layers.0.attention.qkv.weight" [3C, C]). Llama's q, k, v and its gate and
// up are separate tensors in Hugging Face's files, and row ranges of one matrix here. GPT-2's linears are Conv1D in
// Hugging Face's files: [in, out] there, [out, in] here.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/models/config.h"
#include "partita/nn/box.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

// A Hugging Face tensor that fills rows [row, row + rows) of our parameter (elements, if it has one dimension).
struct HfPiece {
  std::string name;
  std::vector<int64_t> shape;  // in the file
  int64_t row = 0, rows = 0;
  bool transposed = false;  // element [i, j] in the file is our [row + j, i]
};

// The box that it fills in a parameter of the given shape.
[[nodiscard]] Box box_of(std::span<const int64_t> shape, const HfPiece&);

struct HfParameter {
  std::string name;  // ours
  std::vector<int64_t> shape;
  std::vector<HfPiece> pieces;  // by ascending row; together they cover all rows
};

// All parameters of a model, in block order. Names are those of the model with its head ("transformer.h.0...",
// "model.layers.0..."). Error: those of validate(model).
[[nodiscard]] std::vector<HfParameter> hf_parameters(const ModelConfig& model);

// Their names and shapes here. `adapter`: they are those of adapters.
[[nodiscard]] std::vector<ParameterSpec> parameter_specs(std::span<const HfParameter> parameters, bool adapter = false);

// "transformer." or "model.": the prefix that is missing in folders of the model without its head.
[[nodiscard]] std::string_view hf_prefix(ModelKind kind);
// Their name for the list of layers, after the prefix: "h" or "layers".
[[nodiscard]] std::string_view hf_layers(ModelKind kind);

// The head, which the folder of a tied model may hold as a copy of the token table.
inline constexpr std::string_view kHfHead = "lm_head.weight";

// Tensors that are not parameters: causal masks and rotary frequencies, stored by old versions.
[[nodiscard]] bool is_hf_buffer(std::string_view name, ModelKind kind);

}  // namespace partita::internal
