// Invalid values that only device kernels see: a token outside the table, a label outside the vocabulary. CPU kernels
// throw directly; device kernels record the error, and the host checks where it waits for the device anyway.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// Error: what device kernels have recorded since the last call, and where.
void check_device_values(at::Device);

}  // namespace partita::internal
