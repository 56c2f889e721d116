// The residual add of one layer fused with the norm of the next.
//
// Two norms: layer norm, and RMS norm (B. Zhang, R. Sennrich, "Root mean square layer normalization", 2019), which has
// no mean and no bias. If `mean` is undefined (then so are norm_bias and its gradient), normed = r * rstd * weight with
// rstd = 1 / sqrt(mean of r^2 + epsilon).
//
// Shapes: N = samples * length rows, or a part of them; C channels. Activations are fp32, bf16 or fp16 (all the same
// dtype), as are weights and biases; statistics and vector gradients are fp32. Sums run in fp32; column sums are
// independent of the number of threads.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/dropout.h"
#include "partita/ops/target.h"

namespace partita::internal {

struct AddNorm {
  // in
  at::Tensor sum;                // [N, C], or undefined: zero
  at::Tensor branch;             // [N, C]
  at::Tensor bias;               // [C], or undefined: none
  Dropout dropout;               // of branch + bias; its element index is position_in_sample * C + channel. The N rows
                                 // may be a part of the micro-batch (Dropout::first_row)
  at::Tensor weight, norm_bias;  // [C]; norm_bias undefined for RMS norm
  double epsilon = 1e-5;
  // out
  at::Tensor residual;  // [N, C] = sum + dropout(branch + bias), rounded to the dtype; may alias `sum` or `branch`
  at::Tensor normed;    // [N, C] = norm of the *rounded* residual, so that a pipeline cut or recompute gives these bits
  at::Tensor mean, rstd;  // [N] fp32; mean undefined: RMS norm
  at::Tensor amax = {};   // [1] fp32 = max(amax, |normed|) (fp8.h); optional
};
void add_norm_forward(const AddNorm&);

// The norm alone, from a saved residual: writes normed (mean and rstd are inputs).
void norm_recompute(at::Tensor normed, at::Tensor residual, at::Tensor mean, at::Tensor rstd, at::Tensor weight,
                    at::Tensor norm_bias);

struct AddNormBackward {
  // in
  at::Tensor d_normed;                      // [N, C]
  at::Tensor d_sum;                         // [N, C]: gradient of the residual from later layers; undefined: zero
  at::Tensor residual, mean, rstd, weight;  // mean undefined: RMS norm
  Dropout dropout;
  // out
  at::Tensor d_residual;                 // [N, C]; may alias d_sum or d_normed
  at::Tensor d_branch;                   // [N, C] = mask * scale * d_residual; not written if p == 0 (use d_residual)
  Target d_weight, d_norm_bias, d_bias;  // [C] fp32; d_bias = column sums of d_branch (d_residual if p == 0)
  at::Tensor amax = {};                  // [1] fp32 = max(amax, |d_branch|) (|d_residual| if p == 0); optional
};
void add_norm_backward(const AddNormBackward&);

}  // namespace partita::internal
