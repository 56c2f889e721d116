// fp8 quantization on a device, and fp8 matmuls with cuBLASLt: contract of ops/fp8.h.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/fp8.h"

namespace partita::internal::cuda {

void check_fp8_device(at::Device);
void fp8_measure(at::Tensor amax, at::Tensor x);
void fp8_quantize(at::Tensor rows, at::Tensor columns, at::Tensor scale, at::Tensor x, bool measure);
void fp8_matmul(at::Tensor out, const Fp8& a, const Fp8& b, bool accumulate, at::Tensor bias);

}  // namespace partita::internal::cuda
