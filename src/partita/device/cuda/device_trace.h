// Traces kernels and copies of the current device with CUPTI's Activity API: contract of device/device_trace.h.
#pragma once
#include <vector>

#include "partita/device/device_trace.h"

namespace partita::internal::cuda {

void start_trace();
[[nodiscard]] std::vector<DeviceSpan> stop_trace();

}  // namespace partita::internal::cuda
