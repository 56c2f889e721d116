#include "partita/device/device_use.h"

#include <atomic>

#include "partita/base/error.h"

#ifdef PARTITA_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

#include "partita/base/cuda_error.h"
#endif

namespace partita::internal {
namespace {

std::atomic<int64_t> from_driver = 0;

}  // namespace

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

void count_device_memory(int64_t bytes) { from_driver += bytes; }

DeviceUse device_use([[maybe_unused]] c10::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) {
    const c10::CachingDeviceAllocator::DeviceStats stats =
        c10::cuda::CUDACachingAllocator::getDeviceStats(device.index());
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return {name_of(device.index()), stats.allocated_bytes[kAll].peak + from_driver,
            stats.reserved_bytes[kAll].peak + from_driver};
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
