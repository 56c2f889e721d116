// Matmuls of linear layers. Weights are [out, in] row-major; fp32, bf16 or fp16; accumulated, and scaled, in fp32. y
// and d_y may be columns of a wider matrix (larger row stride, contiguous elements within a row).
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// y [N, out] = x [N, in] w^T (+ bias [out], if defined).
void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias = {});
// y [N, out] += scale * x [N, in] w^T.
void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale);
// d_x [N, in] (+)= scale * d_y [N, out] w.
void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale = 1, bool accumulate = false);
// d_w [out, in] (+)= scale * d_y^T x. d_w may be fp32 with half-precision d_y and x; it then accumulates in fp32.
void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale = 1);

}  // namespace partita::internal
