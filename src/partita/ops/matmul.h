// Matrix products of linear layers. Weights are [out, in] row-major; fp32 or bf16, products summed in fp32.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita {

// y [N, out] = x [N, in] w^T (+ bias [out], if defined).
void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias = {});
// d_x [N, in] = d_y [N, out] w.
void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w);
// d_w [out, in] (+)= d_y^T x. d_w may be fp32 where d_y and x are bf16.
void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate);

}  // namespace partita
