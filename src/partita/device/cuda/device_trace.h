// Kernels and copies of the current device by CUPTI's Activity API: the contract of device/device_trace.h.
#pragma once
#include <vector>

#include "partita/device/device_trace.h"

namespace partita::internal::cuda {

void start_trace();
[[nodiscard]] std::vector<DeviceSpan> stop_trace();

}  // namespace partita::internal::cuda
