// Implements ops/attention_self_check.h on the current device and stream.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/attention.h"

namespace partita::internal::cuda {

// Difference between cuDNN's attention and our own kernels on seeded random inputs, of `length` tokens of each sample
// on this rank, for the last sample: the maximum,
// over heads and blocks of positions, of the RMS error relative to the RMS value.
struct AttentionDifference {
  double forward = 0, backward = 0;
};
[[nodiscard]] AttentionDifference attention_difference(at::ScalarType, int64_t samples, int64_t length, Heads,
                                                       bool deterministic, uint64_t seed, const ContextSplit& = {});
// Both round softmax weights to the dtype and sum in a different order; a wrong head or block differs by 1 or more.
[[nodiscard]] double allowed_attention_difference(at::ScalarType);

// Error: the difference exceeds the limit. Uses the same seed in every run.
void attention_self_check(at::ScalarType, int64_t samples, int64_t length, Heads, bool deterministic,
                          const ContextSplit& = {});
[[nodiscard]] int64_t reserve_workspace(at::ScalarType, int64_t samples, int64_t length, Heads, float dropout,
                                        bool deterministic, const ContextSplit& = {});

}  // namespace partita::internal::cuda
