// Causal self-attention on packed queries, keys and values.
//
//   qkv [samples, length, (heads + 2 * kv_heads) * head_width]: all q heads, then all k heads, then all v heads
//   out [samples, length, heads * head_width];  fp32, bf16 or fp16
//   log_sum [samples, heads, length] fp32: log of the softmax denominator of the scaled scores, for backward; may be
//     undefined
// Query head h reads key/value head h / (heads / kv_heads). Scores are scaled by 1/sqrt(head_width). dropout.p > 0
// drops probabilities after the softmax; its element index is (head * length + query) * length + key, where the first
// head of the operand is head dropout.first_head of the model. On the CPU, a group of heads with its key/value heads
// gives bit for bit what these heads give among all; cuda/attention.h says what holds on a device.
// Each thread needs workspace for a few times 64 x length scores, reused between calls. fp16, and bf16 on CPUs without
// AVX-512, are widened to fp32 as a whole.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/dropout.h"

namespace partita::internal {

struct Heads {
  int64_t heads = 1, kv_heads = 1, head_width = 64;
};

// first_keys [samples, length] int32, or undefined: query t attends to keys first_keys[t] .. t, so that documents
// packed into one sample do not see each other; fully masked key blocks are skipped. 0 <= first_keys[t] <= t,
// nondecreasing along a sample.
void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads, const Dropout&,
                       at::Tensor first_keys = {});
// d_qkv has the layout of qkv. Bitwise reproducible.
void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads,
                        const Dropout&, at::Tensor first_keys = {});

// Attention for generation, with cached keys and values [samples, kv_heads, capacity, head_width] in qkv's dtype, which
// hold `past` positions. Appends the keys and values of qkv [samples, n, ...]; each of the n queries attends to all
// positions up to its own. past + n <= capacity. With few queries, keys and values are read once, in place.
void attention_cached(at::Tensor out, at::Tensor qkv, at::Tensor keys, at::Tensor values, int64_t past, Heads);

}  // namespace partita::internal
