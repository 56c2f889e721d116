#include "partita/ops/device_values.h"

#ifdef PARTITA_CUDA
#include "partita/ops/cuda/values.h"
#endif

namespace partita::internal {

void check_device_values([[maybe_unused]] at::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) cuda::check_values();
#endif
}

}  // namespace partita::internal
