#include "partita/device/current_device.h"
#ifdef PARTITA_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace partita::internal {

std::function<void()> device_of_this_thread() {
#ifdef PARTITA_CUDA
  if (c10::cuda::device_count() > 0) return [gpu = c10::cuda::current_device()] { c10::cuda::set_device(gpu); };
#endif
  return [] {};
}

}  // namespace partita::internal
