#include "partita/ops/linear_gelu.h"

#include "partita/ops/activation.h"
#include "partita/ops/matmul.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/matmul.h"
#endif

namespace partita::internal {

void linear_gelu_forward(at::Tensor out, at::Tensor up, at::Tensor x, at::Tensor w, at::Tensor bias) {
#ifdef PARTITA_CUDA
  if (up.is_cuda() && cuda::has_fused_gelu(up)) return cuda::linear_gelu_forward(out, up, x, w, bias);
#endif
  linear_forward(up, x, w);
  bias_gelu_forward(out, up, bias);
}

void linear_gelu_backward(at::Tensor d_up, at::Tensor d_y, at::Tensor w, at::Tensor up, Target d_bias) {
#ifdef PARTITA_CUDA
  if (up.is_cuda() && cuda::has_fused_gelu(up)) {
    cuda::linear_gelu_backward_input(d_up, d_y, w, up);
    return bias_backward(d_up, d_bias);
  }
#endif
  linear_backward_input(d_up, d_y, w);
  bias_gelu_backward(d_up, d_up, up, d_bias);
}

}  // namespace partita::internal
