// Name of a device, and how much of its memory this process has used.
//
//   DeviceUse use = device_use(device);   // {"NVIDIA H100 80GB HBM3", 28131827712, 30064771072}
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace partita::internal {

// Peak bytes since process start according to torch's allocator: allocated to tensors, and reserved from the driver.
// Both with the memory that ranks share now, which comes from the driver. Excludes what libraries allocate themselves.
struct DeviceUse {
  std::string name;
  int64_t allocated = 0, reserved = 0;
};

// Bytes of GPU memory that this process can still allocate: free on the card, or reserved by torch's allocator and
// unused. GPUs only.
[[nodiscard]] int64_t free_device_memory(c10::Device);

// Memory that was allocated from the driver for tensors; negative: freed.
void count_device_memory(int64_t bytes);

// On the CPU: an empty name and zeros.
[[nodiscard]] DeviceUse device_use(c10::Device);

}  // namespace partita::internal
