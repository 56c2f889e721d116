// Matrix products of linear layers. Weights are [out, in] row-major; fp32, bf16 or fp16; products are summed in fp32,
// where scale is applied too. y and d_y may be columns of a wider matrix (rows apart, elements of a row side by side).
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// y [N, out] = x [N, in] w^T (+ bias [out], if defined).
void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias = {});
// y [N, out] += scale * x [N, in] w^T.
void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale);
// d_x [N, in] (+)= scale * d_y [N, out] w.
void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale = 1, bool accumulate = false);
// d_w [out, in] (+)= scale * d_y^T x. d_w may be fp32 where d_y and x are half precision: it is added to in fp32.
void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale = 1);

}  // namespace partita::internal
