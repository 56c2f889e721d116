// Matmuls of linear layers on a device, with cuBLASLt: contract of ops/matmul.h. fp32 operands are multiplied in fp32
// (no TF32); with half-precision operands d_w may be fp32, accumulated within the matmul.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal::cuda {

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias = {});
void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale);
void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale = 1, bool accumulate = false);
void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale = 1);

// Matmuls with fused GELU (tanh approximation), for GPT-2's MLP. Available for a half-precision `up` [N, F] with F
// divisible by 8 and 16-byte alignment; otherwise use the kernels of activation.h.
[[nodiscard]] bool has_fused_gelu(const at::Tensor& up);
// up [N, F] = x [N, C] w^T + bias; out [N, F] = gelu(up), applied before up is rounded.
void linear_gelu_forward(at::Tensor out, at::Tensor up, at::Tensor x, at::Tensor w, at::Tensor bias);
// d_up [N, F] = (d_y [N, C] w [C, F]) * gelu'(up), where w belongs to the linear after the GELU. d_up must not alias
// up.
void linear_gelu_backward_input(at::Tensor d_up, at::Tensor d_y, at::Tensor w, at::Tensor up);

}  // namespace partita::internal::cuda
