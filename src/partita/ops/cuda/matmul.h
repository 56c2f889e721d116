// Matrix products of linear layers on a device, by cuBLASLt: the contract of ops/matmul.h, for tensors there. fp32 is
// multiplied as fp32 (no TF32); d_w may be fp32 of half-precision factors, and is added to in the product.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal::cuda {

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias = {});
void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale);
void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale = 1, bool accumulate = false);
void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale = 1);

// Products with GELU (tanh approximation) in them, for the MLP of GPT-2. Whether they exist for such an `up` [N, F]:
// half precision, F divisible by 8, at an address divisible by 16. Where not, use the kernels of activation.h.
[[nodiscard]] bool has_gelu_products(const at::Tensor& up);
// up [N, F] = x [N, C] w^T + bias; out [N, F] = gelu(up), of up before it is rounded.
void linear_gelu_forward(at::Tensor out, at::Tensor up, at::Tensor x, at::Tensor w, at::Tensor bias);
// d_up [N, F] = (d_y [N, C] w [C, F]) * gelu'(up), w that of the linear behind the GELU. d_up may not be up.
void linear_gelu_backward_input(at::Tensor d_up, at::Tensor d_y, at::Tensor w, at::Tensor up);

}  // namespace partita::internal::cuda
