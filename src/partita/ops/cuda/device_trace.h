// Kernels and copies of the current device by CUPTI's Activity API: the contract of ops/device_trace.h.
#pragma once
#include <vector>

#include "partita/ops/device_trace.h"

namespace partita::cuda {

void start_trace();
[[nodiscard]] std::vector<DeviceSpan> stop_trace();

}  // namespace partita::cuda
