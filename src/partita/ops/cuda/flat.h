// Element-wise work on flat buffers on a device: contract of ops/flat.h; results stay on the device.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal::cuda {

// out [n] fp32 (+)= in [n] (fp32, bf16 or fp16).
void add_into(at::Tensor out, at::Tensor in, bool accumulate);
// out [1] double += sum of squares of in [n] (fp32, bf16 or fp16). Bitwise reproducible; propagates NaN and inf.
void sum_of_squares(at::Tensor in, at::Tensor out);
// out [n] = in [n], rounded to nearest even; any pair of fp32, bf16 and fp16.
void cast(at::Tensor out, at::Tensor in);

}  // namespace partita::internal::cuda
