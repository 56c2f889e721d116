// Values that only kernels on a device see: a token outside the table, a label outside the vocabulary. The CPU's
// kernels raise the error themselves; a device's note it, and the host asks where it waits for the device anyway.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// Error: what a kernel on the device found since the last call, and where.
void check_device_values(at::Device);

}  // namespace partita::internal
