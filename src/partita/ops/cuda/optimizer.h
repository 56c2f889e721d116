// Optimizer steps on a device: contracts of ops/adamw.h, ops/sgd.h and ops/lamb.h. `now` points to device memory, so a
// step is skipped there; stochastic rounding gives the same bits as on the CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/adamw.h"
#include "partita/ops/lamb.h"
#include "partita/ops/sgd.h"

namespace partita::internal::cuda {

void adamw_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const AdamW&,
                const StepScalars* now, const Rounding& = {});

void sgd_step(at::Tensor master, at::Tensor momentum, at::Tensor gradient, at::Tensor weight, const Sgd&,
              const StepScalars* now, const Rounding& = {});

// norms [2] double += squared norms of master and of the update that lamb_step will apply. Bitwise reproducible.
void lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb&,
                  const StepScalars* now, at::Tensor norms);

// norms [2] double, summed over all parts of the parameter: the ratio is |weight| / |update|, or 1 if either is 0.
void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb&,
               at::Tensor norms, const StepScalars* now, const Rounding& = {});

}  // namespace partita::internal::cuda
