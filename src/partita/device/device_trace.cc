#include "partita/device/device_trace.h"

#ifdef PARTITA_CUDA
#include "partita/device/cuda/device_trace.h"
#endif

namespace partita::internal {

void start_device_trace([[maybe_unused]] c10::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) cuda::start_trace();
#endif
}

std::vector<DeviceSpan> stop_device_trace([[maybe_unused]] c10::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) return cuda::stop_trace();
#endif
  return {};
}

}  // namespace partita::internal
