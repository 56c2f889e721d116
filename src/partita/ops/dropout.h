// Dropout masks. A mask is a function of (seed, step, sample, site, element): base/random.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct Dropout {
  float p = 0;                       // 0: no dropout, other fields are ignored
  uint32_t site = 0;                 // number of the dropout site in the model
  const StepScalars* now = nullptr;  // seed and step
  at::Tensor samples;                // [n] int64: global id of each sample of the micro-batch
};

// Standalone dropout: out [N, C] = mask * scale * in (fp32, bf16 or fp16, same dtype); the element index is
// position_in_sample * C + channel. out may alias in. p == 0: a copy.
void dropout_forward(at::Tensor out, at::Tensor in, const Dropout&);
// out += mask * scale * in.
void dropout_add(at::Tensor out, at::Tensor in, const Dropout&);

}  // namespace partita::internal
