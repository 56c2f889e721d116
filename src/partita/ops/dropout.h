// Which dropout mask a kernel applies. The mask is a function of (seed, step, sample, site, element): base/random.h.
#pragma once
#include <cstdint>
#include <span>

#include "partita/ops/step_scalars.h"

namespace partita {

struct Dropout {
  float p = 0;                       // 0: no dropout, the other fields are not read
  uint32_t site = 0;                 // of the mask in the model: each place that drops has its own number
  const StepScalars* now = nullptr;  // seed and step
  std::span<const int64_t> samples;  // global id of each sample of the micro-batch
};

}  // namespace partita
