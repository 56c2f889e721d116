// Floating-point operations of a training step in the conventions by which systems are compared: pure counts.
//
//   double full = training_flops(model, 1024, AttentionCount::full);           // a token: 6 N + 12 L C T
//   double peak = peak_flops("NVIDIA H100 80GB HBM3", DType::bf16);            // 989e12
//   double mfu = tokens_per_second / ranks * full / peak;
//   double hfu = tokens_per_second / ranks * (full + repeated_flops(model, 1024, Keep::entry, 0)) / peak;
//
// A multiply-add counts as two. N is the parameters without tables of tokens and positions but with the head's matrix:
// norms and biases too, unlike flops_per_token() of models/config.h, which counts only what is multiplied.
#pragma once
#include <cstdint>
#include <string_view>

#include "partita/base/dtype.h"
#include "partita/models/config.h"
#include "partita/nn/buffers.h"

namespace partita {

// full: the whole square of attention, although half of it is masked: the usual convention, the generous one.
// causal: the half that is computed.
enum class AttentionCount : uint8_t { full, causal };

// The N above.
[[nodiscard]] int64_t counted_parameters(const ModelConfig&);

// Forward and backward for one token of a sequence of `length`: 6 N, and 12 (causal: 6) x layers x width x length,
// where width is heads x head_size.
[[nodiscard]] double training_flops(const ModelConfig&, int64_t length, AttentionCount);

// What backward makes again for one token, full attention: the products and attentions that are not kept. A layer of
// which nothing but the entry is kept counts by convention as its share of a whole forward, a third of training_flops.
// The first `full_recompute_layers` layers are such whatever `keep` says.
[[nodiscard]] double repeated_flops(const ModelConfig&, int64_t length, Keep keep, int64_t full_recompute_layers);

// Dense FLOP/s of a card by the name that its driver gives it, from the maker's data sheet, in the dtype of the
// compute: half precision on tensor cores, fp32 without them, since no product of ours is made in TF32. fp8 has twice
// as many as bf16, over which MFU is given all the same. 0: an unknown card, of which no MFU is shown.
[[nodiscard]] double peak_flops(std::string_view card, DType compute);

}  // namespace partita
