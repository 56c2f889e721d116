// Causal self-attention on a device: contract of ops/attention.h.
//
// bf16 and fp16 with head widths 8, 16 ... 128 use cuDNN, called directly so that gradients are written packed.
// Everything else (fp32, other widths, packed documents, what cuDNN rejects) uses our own plain kernels, for head
// widths up to 256.
//
// Dropout: the plain kernels drop the same elements as the CPU. cuDNN uses its own Philox over the elements of the
// call, seeded from (seed, step, site, first head, first position, first sample): the same mask in recomputation, but a
// different one if samples, sequences or heads are divided differently among ranks and micro-batches.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"

namespace partita::internal::cuda {

// The host does not read first_keys: values outside 0 .. t are clamped.
void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads, const Dropout&,
                       at::Tensor first_keys = {}, const WholeKeys& = {});

// deterministic: bitwise reproducible, for 13-20% more time and gigabytes of cuDNN workspace (the plain kernels always
// are). Otherwise sums depend on the order in which blocks finish.
void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads,
                        const Dropout&, at::Tensor first_keys, const WholeKeys&, at::Tensor d_keys_values,
                        bool deterministic);

void attention_cached(at::Tensor out, at::Tensor qkv, at::Tensor keys, at::Tensor values, int64_t past, Heads);

// Bytes of workspace (ops/cuda/workspace.h) that forward and backward need for a qkv [samples, length, ...], for the
// memory plan. Builds cuDNN's plans, which takes up to a second, here rather than in the first step.
[[nodiscard]] int64_t attention_workspace(at::ScalarType, int64_t samples, int64_t length, Heads, float dropout,
                                          bool deterministic, const ContextSplit& = {});

}  // namespace partita::internal::cuda
