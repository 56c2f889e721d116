// Causal self-attention on packed queries, keys and values.
//
//   qkv [samples, length, (heads + 2 * kv_heads) * head_width]: all q heads, then all k heads, then all v heads
//   out [samples, length, heads * head_width];  fp32, bf16 or fp16
//   log_sum [samples, heads, length] fp32: log of the softmax denominator of the scaled scores, for backward; may be
//     undefined. With WholeKeys the order of its elements is the device's own.
// Query head h reads key/value head h / (heads / kv_heads). Scores are scaled by 1/sqrt(head_width). dropout.p > 0
// drops probabilities after the softmax; its element index is (head * length + query) * length + key, where the first
// head of the operand is head dropout.first_head of the model. On the CPU, a group of heads with its key/value heads
// gives bit for bit what these heads give among all; cuda/attention.h says what holds on a device.
// Context parallelism: qkv, out, log_sum and first_keys have `length` positions of each sample, those of a rank's
// pieces, and WholeKeys the keys and values of all positions, to which `first_keys` and the element index above refer.
// Each thread needs workspace for a few times 64 x length scores, reused between calls. fp16, and bf16 on CPUs without
// AVX-512, are widened to fp32 as a whole.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/context_split.h"
#include "partita/ops/dropout.h"

namespace partita::internal {

struct Heads {
  int64_t heads = 1, kv_heads = 1, head_width = 64;
};

struct WholeKeys {
  // [samples, split.ranks * length, 2 * kv_heads * head_width]: all k heads, then all v heads. Undefined: k and v of
  // qkv.
  at::Tensor keys_values;
  ContextSplit split;
};

// first_keys [samples, length] int32, or undefined: a query at position t attends to keys first_keys .. t, so that
// documents packed into one sample do not see each other; fully masked key blocks are skipped. 0 <= first_keys <= t,
// nondecreasing along a sample.
void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads, const Dropout&,
                       at::Tensor first_keys = {}, const WholeKeys& = {});
// d_qkv has the layout of qkv. With WholeKeys, its k and v are not written: d_keys_values, like keys_values, receives
// the gradients that these queries give to all keys and values. Bitwise reproducible.
void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads,
                        const Dropout&, at::Tensor first_keys = {}, const WholeKeys& = {},
                        at::Tensor d_keys_values = {});

// Attention for generation, with cached keys and values [samples, kv_heads, capacity, head_width] in qkv's dtype, which
// hold `past` positions. Appends the keys and values of qkv [samples, n, ...]; each of the n queries attends to all
// positions up to its own. past + n <= capacity. With few queries, keys and values are read once, in place.
void attention_cached(at::Tensor out, at::Tensor qkv, at::Tensor keys, at::Tensor values, int64_t past, Heads);

}  // namespace partita::internal
