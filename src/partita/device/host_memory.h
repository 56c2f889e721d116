// Large host buffers, and pinned buffers for copies from and to a device.
//
//   at::Tensor master = host_zeros(count, DType::fp32);
//   at::Tensor staging = pinned_zeros(count, DType::bf16, device);
//
// Pinning memory that is already touched takes a tenth of the time of allocating pinned memory from the driver.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/dtype.h"

namespace partita::internal {

// [count] zeros in huge pages where available, touched by all threads. Error: out of memory.
[[nodiscard]] at::Tensor host_zeros(int64_t count, DType);
// The same, pinned for copies from and to the device; not pinned on the CPU.
[[nodiscard]] at::Tensor pinned_zeros(int64_t count, DType, at::Device);
// The same for [count] bytes.
[[nodiscard]] at::Tensor pinned_bytes(int64_t count, at::Device);

}  // namespace partita::internal
