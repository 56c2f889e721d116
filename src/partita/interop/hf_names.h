// Where Hugging Face's folders hold our parameters: names, shapes, rows, and which lie transposed. Pure.
//
//   for (const HfParameter& p : hf_parameters(model))
//     for (const HfPiece& piece : p.pieces) ...   // rows [row, row + rows) of p are the tensor piece.name
//
// Parameters are ours (docs/architecture.md: "layers.0.attention.qkv.weight" [3C, C]). Llama's q, k and v, and its gate
// and up, are tensors of their own there and rows of one matrix here. GPT-2's linears are Conv1D there: [in, out], here
// [out, in].
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/models/config.h"
#include "partita/nn/box.h"

namespace partita::internal {

// A tensor of theirs that fills rows [row, row + rows) of a parameter of ours (elements, if it has one dimension).
struct HfPiece {
  std::string name;
  std::vector<int64_t> shape;  // theirs
  int64_t row = 0, rows = 0;
  bool transposed = false;  // their [i, j] is our [row + j, i]
};

// What it fills of a parameter of that shape.
[[nodiscard]] Box box_of(std::span<const int64_t> shape, const HfPiece&);

struct HfParameter {
  std::string name;  // ours
  std::vector<int64_t> shape;
  std::vector<HfPiece> pieces;  // ascending rows; together all of them
};

// Every parameter of a model, in the order of its blocks. Names are those of the model with its head
// ("transformer.h.0...", "model.layers.0..."). Error: those of validate(model).
[[nodiscard]] std::vector<HfParameter> hf_parameters(const ModelConfig& model);

// "transformer." or "model.": what a folder of the model without its head leaves out.
[[nodiscard]] std::string_view hf_prefix(ModelKind kind);
// What they call the list of layers, behind the prefix: "h" or "layers".
[[nodiscard]] std::string_view hf_layers(ModelKind kind);

// The head, which a tied model's folder may hold as a copy of the token table.
inline constexpr std::string_view kHfHead = "lm_head.weight";

// Tensors of a folder that are no parameters: causal masks and rotary frequencies, which old versions stored.
[[nodiscard]] bool is_hf_buffer(std::string_view name, ModelKind kind);

}  // namespace partita::internal
