// SGD with momentum in one pass over a run of elements, like torch.optim.SGD (dampening 0, no Nesterov), with weight
// decay added to the gradient.
//
//   sgd_step(master, momentum, gradient, weight, {.momentum = 0.9}, &now);
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/rounding.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct Sgd {
  double momentum = 0.9;
  double weight_decay = 0;  // for this run: 0 for biases and norms
};

// With g = gradient * now->gradient_scale + weight_decay * master, lr = now->learning_rate:
//   momentum = sgd.momentum * momentum + g;  master = master - lr * momentum
// sgd.momentum == 0: `momentum` is undefined and master = master - lr * g.
// Dtypes, weight, rounding (master is tensor 0, momentum 1) and now->skip as in ops/adamw.h.
void sgd_step(at::Tensor master, at::Tensor momentum, at::Tensor gradient, at::Tensor weight, const Sgd&,
              const StepScalars* now, const Rounding& = {});

}  // namespace partita::internal
