// AdamW, one pass over a run of elements (I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", 2019).
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/step_scalars.h"

namespace partita {

struct AdamW {
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float weight_decay = 0;  // of this run: 0 for biases and norms
};

// With g = gradient * now->gradient_scale, lr = now->learning_rate, t = now->step + 1:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   master = master - lr * (weight_decay * master + (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon))
// master, m, v [n] fp32; gradient [n] fp32; weight [n] bf16 or fp16 gets the rounded master, undefined or the same
// storage as master: nothing more is written. now->skip != 0: nothing changes.
void adamw_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const AdamW&,
                const StepScalars* now);

}  // namespace partita
