// LAMB (Y. You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020): Adam's update,
// scaled for each parameter as a whole so that its norm is learning rate times the norm of the weights.
//
//   SquaredNorms norms = lamb_measure(master, m, v, gradient, lamb, &now);     // of this part; summed over all parts
//   lamb_step(master, m, v, gradient, weight, lamb, lamb_ratio(norms), &now);
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/rounding.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct Lamb {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;  // of this parameter: 0 for biases and norms
};

struct SquaredNorms {
  double weight = 0, update = 0;
};

// With g, t, m and v as in ops/adamw.h, the update is
//   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * master
// Squared norms, in double, of master and of the u that lamb_step will make; nothing is written. Does not depend on the
// number of threads. now->skip != 0: 0.
[[nodiscard]] SquaredNorms lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb&,
                                        const StepScalars* now);

// |weight| / |update| of a whole parameter, without bounds; 1 where either is 0.
[[nodiscard]] double lamb_ratio(const SquaredNorms&);

// master = master - now->learning_rate * ratio * u; m and v are updated.
// Dtypes, weight, rounding (master, m, v are tensors 0, 1, 2) and now->skip as in ops/adamw.h.
void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb&,
               double ratio, const StepScalars* now, const Rounding& = {});

}  // namespace partita::internal
