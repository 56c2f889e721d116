// Causal self-attention on packed queries, keys and values.
//
//   qkv [samples, length, (heads + 2 * kv_heads) * head_width]: all q heads, then all k heads, then all v heads
//   out [samples, length, heads * head_width];  fp32, bf16 or fp16
//   log_sum [samples, heads, length] fp32: log of the softmax denominator of the scaled scores, for backward; undefined
//     where there is none
// Query head h reads key/value head h / (heads / kv_heads). Scores are scaled by 1/sqrt(head_width). dropout.p > 0
// drops probabilities after the softmax; its element index is (head * length + query) * length + key.
// A thread needs memory for 64 x length scores, a few times; it is kept from call to call. fp16, and bf16 on CPUs
// without AVX-512, are widened to fp32 as a whole.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/dropout.h"

namespace partita::internal {

struct Heads {
  int64_t heads = 1, kv_heads = 1, head_width = 64;
};

// first_keys [samples, length] int32, or undefined: query t reads keys first_keys[t] .. t, so that documents packed
// into one sample do not see each other; blocks of keys that nobody sees are not computed. 0 <= first_keys[t] <= t,
// never falling along a sample.
void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads, const Dropout&,
                       at::Tensor first_keys = {});
// d_qkv like qkv. Repeatable: the same bits in every run.
void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads,
                        const Dropout&, at::Tensor first_keys = {});

// Generation: keys and values of what was read before are kept. keys, values [samples, kv_heads, capacity, head_width]
// in qkv's dtype hold `past` positions; those of qkv [samples, n, ...] are appended behind them, and its n queries read
// all up to their own. past + n <= capacity. One query, or few, read keys and values once, where they lie.
void attention_cached(at::Tensor out, at::Tensor qkv, at::Tensor keys, at::Tensor values, int64_t past, Heads);

}  // namespace partita::internal
