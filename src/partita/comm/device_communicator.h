// Wraps a group for collectives on the tensors of a device.
//
//   std::unique_ptr<Communicator> dp = on_device(world.group("dp", ranks), device);
#pragma once
#include <c10/core/Device.h>

#include <chrono>
#include <memory>

#include "partita/comm/communicator.h"

namespace partita::internal {

// CPU: the group itself. CUDA: NCCL over the same ranks; host tensors still use the group. Collective. Error: a device
// that this build does not support.
[[nodiscard]] std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> group, c10::Device,
                                                      std::chrono::milliseconds timeout = std::chrono::minutes(10));

}  // namespace partita::internal
