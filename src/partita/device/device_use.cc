#include "partita/device/device_use.h"

#include "partita/base/error.h"

#ifdef PARTITA_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "partita/base/cuda_error.h"
#endif

namespace partita::internal {
#ifdef PARTITA_CUDA
namespace {

// Cached, since the driver call is slow.
const std::string& name_of(int device) {
  static std::map<int, std::string> names;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::string& name = names[device];
  if (name.empty()) {
    cudaDeviceProp properties{};
    PARTITA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    name = properties.name;
  }
  return name;
}

}  // namespace
#endif

DeviceUse device_use([[maybe_unused]] c10::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) {
    const c10::CachingDeviceAllocator::DeviceStats stats =
        c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {name_of(device.index()), stats.allocated_bytes[kAll].peak, stats.reserved_bytes[kAll].peak};
  }
#endif
  return {};
}

int64_t free_device_memory([[maybe_unused]] c10::Device device) {
#ifdef PARTITA_CUDA
  size_t free = 0, total = 0;
  PARTITA_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  // Before the first allocation of the process, torch has no statistics for any device.
  if (!c10::cuda::CUDACachingAllocator::get()->initialized()) return static_cast<int64_t>(free);
  const c10::CachingDeviceAllocator::DeviceStats stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return static_cast<int64_t>(free) + stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
#else
  fail("this build has no code for GPUs");
#endif
}

}  // namespace partita::internal
