// AdamW in one pass over a run of elements (I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", 2019).
//
//   adamw_step(master, m, v, gradient, weight, {.weight_decay = 0.1}, &now);
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/rounding.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct AdamW {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;  // for this run: 0 for biases and norms
};

// With g = gradient * now->gradient_scale, lr = now->learning_rate, t = now->update + 1:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   master = master - lr * (weight_decay * master + (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon))
// gradient [n] fp32, bf16 or fp16. master, m, v [n] are all either
//   fp32: the rounded master is written to weight [n] bf16 or fp16, unless weight is undefined or aliases master; or
//   bf16: computed in fp32 and rounded stochastically as tensors 0, 1, 2; weight is undefined or master itself.
// now->skip != 0: nothing is written.
void adamw_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const AdamW&,
                const StepScalars* now, const Rounding& = {});

}  // namespace partita::internal
