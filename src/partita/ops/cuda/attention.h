// Causal self-attention on a device: the contract of ops/attention.h, for tensors there.
//
// bf16 and fp16 with heads of 8, 16 ... 128 go to cuDNN, called directly, so that gradients are written packed. All
// else (fp32, other widths, packed documents, what cuDNN refuses) goes to plain kernels of our own, for heads of up to
// 256.
//
// Dropout. The plain kernels drop what the CPU drops. cuDNN draws from its own Philox over the elements of the call,
// with a seed made of (seed, step, site, first sample): the same again in recomputation, but another mask for another
// division of the samples among ranks and micro-batches.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/attention.h"
#include "partita/ops/cuda/dropout.h"

namespace partita::internal::cuda {

// first_keys are numbers that the host does not look at: one outside 0 .. t is taken as the nearest of these.
void attention_forward(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads, const Dropout&,
                       at::Tensor first_keys = {});

// deterministic: the same bits in every run, for 13-20% more time and gigabytes of workspace in cuDNN (the plain
// kernels always repeat). Without it sums are made in the order in which blocks finish.
void attention_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads,
                        const Dropout&, at::Tensor first_keys, bool deterministic);

void attention_cached(at::Tensor out, at::Tensor qkv, at::Tensor keys, at::Tensor values, int64_t past, Heads);

// Bytes of workspace (ops/cuda/workspace.h) that forward and backward use for such a qkv [samples, length, ...], for
// the memory plan. Builds cuDNN's plans, which takes up to a second: here, rather than in the first step.
[[nodiscard]] int64_t attention_workspace(at::ScalarType, int64_t samples, int64_t length, Heads, float dropout,
                                          bool deterministic);

}  // namespace partita::internal::cuda
