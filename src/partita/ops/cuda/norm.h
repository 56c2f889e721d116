// Fused residual add and norm on a device: contract of ops/norm.h; op.dropout.now points to device memory. C is at most
// 16384.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/norm.h"

namespace partita::internal::cuda {

void add_norm_forward(const AddNorm&);
void norm_recompute(at::Tensor normed, at::Tensor residual, at::Tensor mean, at::Tensor rstd, at::Tensor weight,
                    at::Tensor norm_bias);
void add_norm_backward(const AddNormBackward&);

}  // namespace partita::internal::cuda
