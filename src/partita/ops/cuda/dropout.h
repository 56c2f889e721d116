// Which dropout mask a kernel on a device applies: as ops/dropout.h, but all that changes from step to step is read from
// memory of the device, so that the host never waits and a captured graph can be replayed.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/ops/step_scalars.h"

namespace partita::cuda {

struct Dropout {
  float p = 0;                       // 0: no dropout, the other fields are not read
  uint32_t site = 0;                 // of the mask in the model: each place that drops has its own number
  const StepScalars* now = nullptr;  // seed and step, in memory of the device
  at::Tensor samples{};              // [samples] int64 on the device: global id of each sample of the micro-batch
};

}  // namespace partita::cuda
