// Summary of a run, logged once its data and engine are ready and before its first step.
//
//   RunInfo info = run_info(config, engine, mesh.world(), device, step, samples);
//   announce_run(config, info, engine, data.examples(), workspace);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/comm/communicator.h"
#include "partita/config/config.h"
#include "partita/engine/engine.h"
#include "partita/monitor/metrics.h"

namespace partita::internal {

// `step` and `samples`: where the run starts.
[[nodiscard]] RunInfo run_info(const Config&, const Engine&, const Communicator& ranks, const at::Device&, int64_t step,
                               int64_t samples);

// Prints the summary; on rank 0, warns if the disk has no room for the checkpoints. `workspace`: bytes used by the
// device's libraries.
void announce_run(const Config&, const RunInfo&, const Engine&, int64_t examples, int64_t workspace);

}  // namespace partita::internal
