// Dropout masks. A mask is a function of (seed, step, sample, site, element): base/random.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/base/context_split.h"
#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct Dropout {
  float p = 0;                       // 0: no dropout, other fields are ignored
  uint32_t site = 0;                 // number of the dropout site in the model
  const StepScalars* now = nullptr;  // seed and step
  at::Tensor samples;                // [n] int64: global id of each sample of the micro-batch
  // Which part of the micro-batch the operand is, where several ranks share one: a part is masked as in the whole.
  int64_t first_row = 0;                  // row of the micro-batch (samples * length rows) at which the operand begins
  int64_t rows = 0;                       // rows of the micro-batch; 0: the operand is the whole micro-batch
  int64_t first_head = 0;                 // attention: number in the model of the operand's first head
  int64_t first_column = 0, columns = 0;  // standalone dropout: of the whole rows; columns 0: the operand has them all
  ContextSplit context = {};  // which positions of each sample the rows of the micro-batch are; not of attention
};

// Standalone dropout: out [N, C] = mask * scale * in (fp32, bf16 or fp16, same dtype); the element index is
// position_in_sample * C + channel, of whole rows. out may alias in. p == 0: a copy. Error: rows that are not whole
// samples; rows or columns outside the micro-batch.
void dropout_forward(at::Tensor out, at::Tensor in, const Dropout&);
// out += mask * scale * in.
void dropout_add(at::Tensor out, at::Tensor in, const Dropout&);

}  // namespace partita::internal
