// Timeline of a device: every kernel and copy, with the driver's timestamps and names.
//
//   start_device_trace(device);
//   ...
//   std::vector<DeviceSpan> spans = stop_device_trace(device);    // waits for the device
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace partita::internal {

enum class DeviceWork : uint8_t { kernel, copy, fill };

struct DeviceSpan {
  std::string name;  // kernels: name in the source with template arguments; copies: direction
  DeviceWork work = DeviceWork::kernel;
  int stream = 0;
  int64_t begin = 0, end = 0;  // nanoseconds of trace::now() (base/trace.h)
  int64_t bytes = 0;           // of copies and fills
};

// No-ops on the CPU. Error: another tool is tracing this process.
void start_device_trace(c10::Device);
[[nodiscard]] std::vector<DeviceSpan> stop_device_trace(c10::Device);

}  // namespace partita::internal
