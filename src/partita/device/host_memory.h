// Host memory for what is large, and for what a device copies from and into.
//
//   at::Tensor master = host_zeros(count, DType::fp32);
//   at::Tensor staging = pinned_zeros(count, DType::bf16, device);
//
// Pinning memory that has been touched takes a tenth of the time that the driver takes to hand out pinned memory.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/dtype.h"

namespace partita::internal {

// [count] zeros in large pages where the system has them, made by all threads. Error: there is no such room.
[[nodiscard]] at::Tensor host_zeros(int64_t count, DType);
// The same, pinned for copies from and to the device; the CPU needs no pinning.
[[nodiscard]] at::Tensor pinned_zeros(int64_t count, DType, at::Device);
// Likewise [count] bytes.
[[nodiscard]] at::Tensor pinned_bytes(int64_t count, at::Device);

}  // namespace partita::internal
