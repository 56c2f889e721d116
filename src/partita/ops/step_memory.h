// StepScalars where kernels read them: the host writes, kernels that are given afterwards see it, and nobody waits.
//
//   StepMemory now(device);
//   now.host.step = 7;
//   now.publish();
//   kernel(..., now.device());
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/step_scalars.h"

namespace partita::internal {

class StepMemory {
 public:
  explicit StepMemory(at::Device);
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;

  StepScalars host;
  void publish();
  [[nodiscard]] const StepScalars* device() const;

 private:
  at::Tensor copy_;  // bytes on the device; undefined on the CPU, where kernels read `host` itself
};

}  // namespace partita::internal
