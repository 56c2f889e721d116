// What a device is and how much of its memory this process has used.
//
//   DeviceUse use = device_use(device);   // {"NVIDIA H100 80GB HBM3", 28131827712, 30064771072}
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace partita::internal {

// Bytes are the highest since the start of the process, by torch's allocator: allocated to tensors, and reserved from
// the driver for them. What libraries take from the driver themselves is in neither.
struct DeviceUse {
  std::string name;
  int64_t allocated = 0, reserved = 0;
};

// Bytes of a GPU's memory that this process may still allocate: free on the card, or reserved by torch's allocator and
// not in use. For GPUs only.
[[nodiscard]] int64_t free_device_memory(c10::Device);

// The CPU has no name and counts nothing.
[[nodiscard]] DeviceUse device_use(c10::Device);

}  // namespace partita::internal
