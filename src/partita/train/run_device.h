// The devices of a run before its first step.
//
//   const int64_t workspace = prepare_device(config, device, mesh.data(), peers);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/checkpoint/peers.h"
#include "partita/comm/communicator.h"
#include "partita/config/config.h"

namespace partita::internal {

// Says which devices there are, checks that they compute what they should (debug.self_check), and takes the scratch
// memory of their libraries, whose bytes it returns. Where steps will be recorded (records_steps) it leaves the default
// stream first. All ranks call it; an error of one is an error of all. On the CPU it says where a precision saves no
// time. Error: kernels.tune_matmul is true on the CPU or in a deterministic run.
[[nodiscard]] int64_t prepare_device(const Config&, at::Device, Communicator& data, Peers&);

}  // namespace partita::internal
