// StepScalars in memory that kernels read: kernels launched after publish() see the values written by the host, without
// synchronization.
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
  at::Tensor copy_;  // bytes on the device; undefined on the CPU, where kernels read `host` directly
};

}  // namespace partita::internal
