// The check of ops/attention_self_check.h on the current device and its current stream.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/attention.h"

namespace partita::internal::cuda {

// Of cuDNN's attention from our own kernels, for the numbers of a seed: the largest over heads and blocks of positions
// of the root mean square of the errors relative to that of the values. Of the last sample.
struct AttentionDifference {
  double forward = 0, backward = 0;
};
[[nodiscard]] AttentionDifference attention_difference(at::ScalarType, int64_t samples, int64_t length, Heads,
                                                       bool deterministic, uint64_t seed);
// Both round the softmax's weights to the dtype and sum in another order; a wrong head or block is 1 and more apart.
[[nodiscard]] double allowed_attention_difference(at::ScalarType);

// Error: they differ by more, for the numbers of one seed, the same in every start.
void attention_self_check(at::ScalarType, int64_t samples, int64_t length, Heads, bool deterministic);
[[nodiscard]] int64_t reserve_workspace(at::ScalarType, int64_t samples, int64_t length, Heads, float dropout,
                                        bool deterministic);

}  // namespace partita::internal::cuda
