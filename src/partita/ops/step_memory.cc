#include "partita/ops/step_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace partita::internal {

StepMemory::StepMemory(at::Device device) {
  if (!device.is_cpu())
    copy_ = at::empty({static_cast<int64_t>(sizeof(StepScalars))}, at::TensorOptions(at::kByte).device(device));
}

void StepMemory::publish() {
  // From pageable memory: the bytes are read before the call returns, so `host` may change right away.
  if (copy_.defined()) copy_.copy_(at::from_blob(&host, {copy_.numel()}, at::kByte), /*non_blocking=*/true);
}

const StepScalars* StepMemory::device() const {
  return copy_.defined() ? static_cast<const StepScalars*>(copy_.const_data_ptr()) : &host;
}

}  // namespace partita::internal
