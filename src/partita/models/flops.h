// FLOPs of a training step in the conventions used to compare systems: pure counts.
//
//   double full = training_flops(model, 1024, AttentionCount::full);           // per token: 6 N + 12 L C T
//   double peak = peak_flops("NVIDIA H100 80GB HBM3", DType::bf16);            // 989e12
//   double mfu = tokens_per_second / ranks * full / peak;
//   double hfu = tokens_per_second / ranks * (full + repeated_flops(model, 1024, Recompute::full, 0)) / peak;
//
// A multiply-add counts as two. N is the number of parameters without token and position tables but with the head's
// matrix. It includes norms and biases, unlike flops_per_token() of models/config.h, which counts matmul weights only.
#pragma once
#include <cstdint>
#include <string_view>

#include "partita/base/dtype.h"
#include "partita/models/config.h"
#include "partita/nn/buffers.h"

namespace partita {

// full: the whole attention square although half of it is masked, the usual convention. causal: the half that is
// computed.
enum class AttentionCount : uint8_t { full, causal };

// N as defined above.
[[nodiscard]] int64_t counted_parameters(const ModelConfig&);

// Forward and backward for one token of a sequence of `length`: 6 N, and 12 (causal: 6) x layers x width x length,
// where width is heads x head_size.
[[nodiscard]] double training_flops(const ModelConfig&, int64_t length, AttentionCount);

// FLOPs that backward recomputes per token, with full attention: the matmuls and attentions that are not saved. By
// convention a fully recomputed layer counts as its share of a whole forward, a third of training_flops. The first
// `full_recompute_layers` layers are fully recomputed regardless of `keep`.
[[nodiscard]] double repeated_flops(const ModelConfig&, int64_t length, Recompute recompute,
                                    int64_t full_recompute_layers);

// Dense peak FLOP/s of a card, by its driver name, from the vendor's data sheet, in the compute dtype: half precision
// on tensor cores, fp32 without them since no matmul here uses TF32. fp8 would peak at twice bf16; MFU is relative to
// bf16 regardless. 0: unknown card, no MFU reported.
[[nodiscard]] double peak_flops(std::string_view card, DType compute);

}  // namespace partita
