// LAMB (Y. You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020): Adam's update,
// rescaled per parameter so that its norm is the learning rate times the norm of the weights.
//
//   SquaredNorms norms = lamb_measure(master, m, v, gradient, lamb, &now);     // of this part; sum over all parts
//   lamb_step(master, m, v, gradient, weight, lamb, lamb_ratio(norms), &now);
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/rounding.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct Lamb {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;  // for this parameter: 0 for biases and norms
};

struct SquaredNorms {
  double weight = 0, update = 0;
};

// With g, t, m and v as in ops/adamw.h, the update is
//   u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * master
// Returns the squared norms, in double, of master and of the u that lamb_step will apply; writes nothing. Independent
// of the number of threads. now->skip != 0: zeros.
[[nodiscard]] SquaredNorms lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb&,
                                        const StepScalars* now);

// |weight| / |update| of a whole parameter, not clamped; 1 if either is 0.
[[nodiscard]] double lamb_ratio(const SquaredNorms&);

// master = master - now->learning_rate * ratio * u; also updates m and v.
// Dtypes, weight, rounding (master, m, v are tensors 0, 1, 2) and now->skip as in ops/adamw.h.
void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb&,
               double ratio, const StepScalars* now, const Rounding& = {});

// The same with the norms in memory of the device: norms [2] double, squared norms of master and of u. lamb_measure
// adds those of this part, and lamb_step takes the sums over all parts of the parameter.
void lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb&,
                  const StepScalars* now, at::Tensor norms);
void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb&,
               at::Tensor norms, const StepScalars* now, const Rounding& = {});

}  // namespace partita::internal
