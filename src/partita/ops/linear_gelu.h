// A linear followed by GELU (tanh approximation): a fused matmul where the device library has one, else the two
// operations of ops/matmul.h and ops/activation.h.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita::internal {

// up [N, F] = x [N, C] w^T + bias [F]; out [N, F] = gelu(up).
void linear_gelu_forward(at::Tensor out, at::Tensor up, at::Tensor x, at::Tensor w, at::Tensor bias);
// d_up [N, F] = (d_y [N, C] w) * gelu'(up), where w [C, F] belongs to the linear after the GELU; d_bias [F] fp32 (+)=
// column sums of d_up.
void linear_gelu_backward(at::Tensor d_up, at::Tensor d_y, at::Tensor w, at::Tensor up, Target d_bias);

}  // namespace partita::internal
