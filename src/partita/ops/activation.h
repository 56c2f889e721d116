// MLP activation functions: GELU (tanh approximation, as in GPT-2) with the bias of the preceding linear, and SwiGLU
// (N. Shazeer, "GLU variants improve transformer", 2020). N rows, C columns; fp32, bf16 or fp16. If defined, amax [1]
// fp32 = max(amax, largest magnitude of the output) (fp8.h).
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita::internal {

// x [N, C] += bias [C] in place (rounded, since backward reads x); out = gelu(x).
void bias_gelu_forward(at::Tensor out, at::Tensor x, at::Tensor bias, at::Tensor amax = {});
// out = gelu(x) for an x that already includes the bias.
void gelu_recompute(at::Tensor out, at::Tensor x);
// d_x = d_out * gelu'(x), d_x may alias d_out; d_bias [C] fp32 (+)= column sums of d_x.
void bias_gelu_backward(at::Tensor d_x, at::Tensor d_out, at::Tensor x, Target d_bias, at::Tensor amax = {});
// out [N, F] = silu(gate) * up; gate_up [N, 2F] holds gate in the first F columns and up in the last F.
void swiglu_forward(at::Tensor out, at::Tensor gate_up, at::Tensor amax = {});
// d_gate_up [N, 2F] from d_out [N, F]; d_gate_up may alias gate_up.
void swiglu_backward(at::Tensor d_gate_up, at::Tensor d_out, at::Tensor gate_up, at::Tensor amax = {});
// d_bias [C] fp32 (+)= column sums of d [N, C].
void bias_backward(at::Tensor d, Target d_bias);

}  // namespace partita::internal
