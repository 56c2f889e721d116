// Collectives of a group where its tensors lie.
//
//   std::unique_ptr<Communicator> dp = on_device(world.group("dp", ranks), device);
#pragma once
#include <c10/core/Device.h>

#include <chrono>
#include <memory>

#include "partita/comm/communicator.h"

namespace partita::internal {

// The group itself on the CPU; on CUDA its ranks over NCCL, whose host tensors still go through the group. Every rank
// of it calls this. Error: a device that this build has no code for.
[[nodiscard]] std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> group, c10::Device,
                                                      std::chrono::milliseconds timeout = std::chrono::minutes(10));

}  // namespace partita::internal
