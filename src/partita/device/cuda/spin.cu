#include <cstdint>

#include "partita/base/cuda_error.h"
#include "partita/device/cuda/spin.h"

namespace partita::internal {
namespace {

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_kernel(uint64_t duration) {
  const uint64_t begin = nanoseconds();
  while (nanoseconds() - begin < duration) __nanosleep(500);
}

}  // namespace

void spin(std::chrono::microseconds time, cudaStream_t stream) {
  if (time.count() <= 0) return;
  spin_kernel<<<1, 1, 0, stream>>>(static_cast<uint64_t>(time.count()) * 1000);
  PARTITA_CUDA_CHECK(cudaGetLastError());
}

}  // namespace partita::internal
