// Standalone dropout on a device: contract of ops/dropout.h.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/dropout.h"

namespace partita::internal::cuda {

// out [N, C] = mask * scale * in; out may alias in. p == 0: a copy.
void dropout_forward(at::Tensor out, at::Tensor in, const Dropout&);
// out += mask * scale * in.
void dropout_add(at::Tensor out, at::Tensor in, const Dropout&);

}  // namespace partita::internal::cuda
