// Element-wise work on flat buffers: sums of what ranks sent, norms, casts.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// out [n] fp32 (+)= in [n] (fp32, bf16 or fp16).
void add_into(at::Tensor out, at::Tensor in, bool accumulate);
// out [1] double += the sum of squares of [n] (fp32, bf16, fp16), the same for any number of threads. Keeps NaN, inf.
void sum_of_squares(at::Tensor in, at::Tensor out);
// out [n] = in [n], rounded to nearest even; fp32, bf16 and fp16 either way.
void cast(at::Tensor out, at::Tensor in);

}  // namespace partita::internal
