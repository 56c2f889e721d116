// Prepares a run's devices before the first step.
//
//   const int64_t workspace = prepare_device(config, mesh, peers);
#pragma once
#include <cstdint>

#include "partita/checkpoint/peers.h"
#include "partita/comm/mesh.h"
#include "partita/config/config.h"

namespace partita::internal {

// Logs the devices, checks their results (debug.self_check) and reserves the scratch memory of their libraries, whose
// size in bytes it returns. If steps will be recorded (records_steps), it first leaves the default stream. Collective;
// an error on one rank is raised on all. On the CPU it warns about a precision that saves no time. Error:
// kernels.tune_matmul is true on the CPU or in a deterministic run.
[[nodiscard]] int64_t prepare_device(const Config&, const Mesh&, Peers&);

}  // namespace partita::internal
