// Maps our parameters to the tensors of megatron-core's GPTModel: which of its rows are which of ours. Pure.
//
//   ChunkedNaming naming = megatron_naming(model, tensors);
//
// Its linear_qkv holds, for each group of query heads that share a key and a value head, the rows of the queries, the
// key and the value; ours holds all queries, then all keys, then all values. Its linear_fc1 of SwiGLU holds the gate,
// then up, as ours. The vocabulary may be padded with rows that belong to no token.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "partita/interop/chunked_weights.h"
#include "partita/models/config.h"

namespace partita::internal {

inline constexpr std::string_view kMegatronLayers = "decoder.layers.";

// Recognizes from the names in `tensors` whether layers are stacked in one tensor
// ("decoder.layers.mlp.linear_fc2.weight" [layers, ...]) or numbered ("decoder.layers.0...."), norms are separate or
// part of the linear that follows (Transformer Engine), and gate and up are separate.
[[nodiscard]] ChunkedNaming megatron_naming(const ModelConfig& model, const ChunkedTensors& tensors);

// The name in megatron-core's GPTModel of a weight of the older GPT model of Megatron-LM
// ("language_model.encoder.layers.0.self_attention.dense.weight"); other names are returned as they are.
[[nodiscard]] std::string megatron_core_name(std::string name);

// How tensor-parallel ranks divide a weight.
enum class MegatronCut : uint8_t { none, rows, columns, gate_up_rows };
// `gated`: the model's MLP is SwiGLU, whose ranks hold their rows of the gate, then their rows of up.
[[nodiscard]] MegatronCut megatron_cut(std::string_view name, bool gated);

}  // namespace partita::internal
