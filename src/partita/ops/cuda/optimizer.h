// Optimizer steps on a device: the contracts of ops/adamw.h, ops/sgd.h and ops/lamb.h, for tensors there. `now` points
// to memory of the device; a skipped step is skipped there. Rounded bits are those of the CPU.
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

// norms [2] double += squared norms of master and of the update that lamb_step will make. The same bits in every run.
void lamb_measure(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, const Lamb&,
                  const StepScalars* now, at::Tensor norms);

// norms [2] double, summed over all parts of the parameter: the ratio is |weight| / |update|, 1 where either is 0.
void lamb_step(at::Tensor master, at::Tensor m, at::Tensor v, at::Tensor gradient, at::Tensor weight, const Lamb&,
               at::Tensor norms, const StepScalars* now, const Rounding& = {});

}  // namespace partita::internal::cuda
