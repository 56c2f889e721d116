#include "partita/ops/device_use.h"

#ifdef PARTITA_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include "partita/base/cuda_error.h"
#endif

namespace partita {

DeviceUse device_use([[maybe_unused]] c10::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) {
    cudaDeviceProp properties{};
    PARTITA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index()));
    const c10::CachingDeviceAllocator::DeviceStats stats =
        c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {properties.name, stats.allocated_bytes[kAll].peak, stats.reserved_bytes[kAll].peak};
  }
#endif
  return {};
}

}  // namespace partita
