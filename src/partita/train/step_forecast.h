// What a training step takes of each resource of a rank, and an estimate of its time. Pure, except rates_here.
//
//   const StepRates rates = default_rates(config.precision.compute, device);
//   const StepForecast f = forecast_step(config, 8, device, rates);
//   f.time.seconds, f.load.total(StepResource::network)
//
// An estimate to compare settings with, not a promise: kernels that are too small for the device, launches, data and
// checkpoints are not in it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "partita/comm/mesh.h"
#include "partita/config/config.h"
#include "partita/train/step_time.h"

namespace partita::internal {

// GPUs: what an H100 or H200 with PCIe 5, NVLink and a host of 16 cores reaches in training; its disk is assumed. CPUs:
// what two cores with AVX-512 reach; their disk and network are assumed. Pure.
[[nodiscard]] StepRates default_rates(DType compute, at::Device);
// The same; on a CPU, with the matmuls of this machine, measured in a tenth of a second.
[[nodiscard]] StepRates rates_here(DType compute, at::Device);

// Of a rank at this place of the mesh. The config is valid for this number of ranks and its vocabulary size is known.
[[nodiscard]] StepLoad step_load(const Config&, int64_t ranks, at::Device, MeshLayout::Position at = {});

struct StepForecast {
  StepLoad load;
  StepTime time;
};
// Of the pipeline stage whose step takes longest.
[[nodiscard]] StepForecast forecast_step(const Config&, int64_t ranks, at::Device, const StepRates&);

// "host_memory", in JSON.
[[nodiscard]] std::string_view key_of(StepResource);

// Lines of a table: the amounts of a step, the rates and the times that they take alone; then the time of the step, the
// tokens of all ranks per second, and what it is bound by.
[[nodiscard]] std::string step_text(const StepForecast&, const StepRates&, int64_t tokens);

}  // namespace partita::internal
