// The check of ops/attention_self_check.h on the current device and its current stream.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/attention.h"

namespace partita::cuda {

void attention_self_check(at::ScalarType, int64_t samples, int64_t length, Heads, bool deterministic);
[[nodiscard]] int64_t reserve_workspace(at::ScalarType, int64_t samples, int64_t length, Heads, float dropout,
                                        bool deterministic);

}  // namespace partita::cuda
