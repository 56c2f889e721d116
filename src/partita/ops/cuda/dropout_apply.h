// Dropout where no other kernel does it, on a device: the contract of ops/dropout.h, for tensors there.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/cuda/dropout.h"

namespace partita::internal::cuda {

// out [N, C] = mask * scale * in; out may be in. p == 0: a copy.
void dropout_forward(at::Tensor out, at::Tensor in, const Dropout&);
// out += mask * scale * in.
void dropout_add(at::Tensor out, at::Tensor in, const Dropout&);

}  // namespace partita::internal::cuda
