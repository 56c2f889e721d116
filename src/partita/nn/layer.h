// What transformer layers of all kinds share: options, parameters, the numbers of the places that drop, attention with
// or without a cache.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "partita/nn/block.h"
#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"

namespace partita::internal {

struct LayerOptions {
  int64_t index;   // of the layer: in names and dropout sites
  int64_t layers;  // of the model: scales the initial residual projections
  int64_t width, ffn_width;
  double norm_epsilon = 1e-5, init_std = 0.02;
  float entry_dropout = 0;  // of what enters: embedding dropout in layer 0, else residual dropout
  float residual_dropout = 0, attention_dropout = 0;
  DType dtype = DType::fp32;
  bool fp8 = false;  // products of the layer's linears in 8 bits, where their sizes allow it
};

// "layers.3.mlp.down.weight"
[[nodiscard]] std::string layer_parameter(int64_t layer, std::string_view suffix);

// A parameter of the layer; matrices decay.
[[nodiscard]] ParameterSpec layer_spec(const LayerOptions&, std::string_view suffix, std::vector<int64_t> shape, Init);
// Of the two projections of a layer that add to the residual stream: their sum keeps its scale over the depth.
[[nodiscard]] Init residual_init(const LayerOptions&);

// Where a layer drops, each with masks of its own.
enum class DropoutPlace : uint8_t { entry, attention, residual };
[[nodiscard]] uint32_t dropout_site(int64_t layer, DropoutPlace);
// Of the adapter number `adapter` of the layer.
[[nodiscard]] uint32_t adapter_dropout_site(int64_t layer, int64_t adapter);

// Dropout at a site in training, none otherwise.
[[nodiscard]] Dropout dropout_at(float p, uint32_t site, const Context&);
// At a place of the layer, with the probability that its options have for it.
[[nodiscard]] Dropout layer_dropout(const LayerOptions&, DropoutPlace, const Context&);

// out [samples, length, heads * head_width] of qkv [samples, length, ...]: of a whole batch, or, in inference with a
// cache, of what comes behind it.
void attend(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, int64_t layer, Heads, const Dropout&, Context&);

}  // namespace partita::internal
