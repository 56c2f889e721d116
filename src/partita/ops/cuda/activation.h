// Activation functions on a device: contract of ops/activation.h.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita::internal::cuda {

void bias_gelu_forward(at::Tensor out, at::Tensor x, at::Tensor bias, at::Tensor amax = {});
void gelu_recompute(at::Tensor out, at::Tensor x);
void bias_gelu_backward(at::Tensor d_x, at::Tensor d_out, at::Tensor x, Target d_bias, at::Tensor amax = {});
void swiglu_forward(at::Tensor out, at::Tensor gate_up, at::Tensor amax = {});
void swiglu_backward(at::Tensor d_gate_up, at::Tensor d_out, at::Tensor gate_up, at::Tensor amax = {});
void bias_backward(at::Tensor d, Target d_bias);

}  // namespace partita::internal::cuda
