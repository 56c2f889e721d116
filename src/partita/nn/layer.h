// What transformer layers of all kinds share: names of parameters, the numbers of the places that drop, attention with or
// without a cache.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "partita/nn/block.h"
#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"

namespace partita {

// "layers.3.mlp.down.weight"
[[nodiscard]] std::string layer_parameter(int64_t layer, std::string_view suffix);

// Where a layer drops, each with masks of its own.
enum class DropoutPlace : uint8_t { entry, attention, residual };
[[nodiscard]] uint32_t dropout_site(int64_t layer, DropoutPlace);
// Of the adapter number `adapter` of the layer.
[[nodiscard]] uint32_t adapter_dropout_site(int64_t layer, int64_t adapter);

// Dropout at a site in training, none otherwise.
[[nodiscard]] Dropout dropout_at(float p, uint32_t site, const Context&);

// out [samples, length, heads * head_width] of qkv [samples, length, ...]: of a whole batch, or, in inference with a cache,
// of what comes behind it.
void attend(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, int64_t layer, Heads, const Dropout&, Context&);

}  // namespace partita
