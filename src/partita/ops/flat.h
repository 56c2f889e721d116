// Element-wise work on flat buffers: accumulation, norms, casts.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// out [n] fp32 (+)= in [n] (fp32, bf16 or fp16).
void add_into(at::Tensor out, at::Tensor in, bool accumulate);
// out [1] double += sum of squares of in [n] (fp32, bf16, fp16), independent of the number of threads. Propagates NaN
// and inf.
void sum_of_squares(at::Tensor in, at::Tensor out);
// out [n] = in [n], rounded to nearest even; any pair of fp32, bf16 and fp16.
void cast(at::Tensor out, at::Tensor in);

}  // namespace partita::internal
