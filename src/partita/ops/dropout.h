// Which dropout mask a kernel applies. The mask is a function of (seed, step, sample, site, element): base/random.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct Dropout {
  float p = 0;                       // 0: no dropout, the other fields are not read
  uint32_t site = 0;                 // of the mask in the model: each place that drops has its own number
  const StepScalars* now = nullptr;  // seed and step
  at::Tensor samples;                // [n] int64: global id of each sample of the micro-batch
};

// out [N, C] = mask * scale * in (both fp32, bf16 or fp16), where no other kernel does it; the element index is
// position_in_sample * C + channel. out may be in. p == 0: a copy.
void dropout_forward(at::Tensor out, at::Tensor in, const Dropout&);
// out += mask * scale * in.
void dropout_add(at::Tensor out, at::Tensor in, const Dropout&);

}  // namespace partita::internal
