// The largest magnitude that a kernel writes, for ops/fp8.h. Magnitudes are compared as fp32 bit patterns, which sort
// like the numbers with infinity and then NaN on top, so the maximum is independent of thread order.
//
//   uint32_t largest = 0;
//   largest = larger(largest, pack);                    // for each stored pack
//   if (amax != nullptr) record_amax(amax, largest);    // once, by all threads of the block
#pragma once
#include "partita/ops/cuda/device.cuh"

namespace partita::internal::cuda {

template <class T, int n>
__device__ __forceinline__ uint32_t larger(uint32_t largest, const Pack<T, n>& pack) {
  if constexpr (kIsHalf<T>) {
    uint32_t pair = 0;  // half-precision magnitudes also sort like their bits
#pragma unroll
    for (int w = 0; w < pack.kWords; ++w) pair = __vmaxu2(pair, pack.word[w] & 0x7FFF7FFFU);
    const uint32_t bits = max(pair & 0xFFFFU, pair >> 16);
    Pack<T, 4> one{{bits, 0}};
    float x[4];
    widen(one, x);
    return max(largest, __float_as_uint(x[0]));
  } else {
#pragma unroll
    for (int w = 0; w < pack.kWords; ++w) largest = max(largest, pack.word[w] & 0x7FFFFFFFU);
    return largest;
  }
}

// *amax = max(*amax, largest over all threads). Requires whole warps, and exclusive use of its shared memory.
__device__ __forceinline__ void record_amax(float* amax, uint32_t largest) {
  __shared__ uint32_t partial[kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = (threadIdx.y * blockDim.x + threadIdx.x) / kWarp;
  const unsigned warps = blockDim.x * blockDim.y / kWarp;
  largest = __reduce_max_sync(0xFFFFFFFFU, largest);
  if (lane == 0) partial[warp] = largest;
  __syncthreads();
  if (warp > 0) return;
  largest = __reduce_max_sync(0xFFFFFFFFU, lane < warps ? partial[lane] : 0);
  // Usually a larger value is already there; a read costs less than an atomic on an address that all blocks write.
  auto* const bits = reinterpret_cast<unsigned*>(amax);
  if (lane == 0 && largest > *static_cast<volatile unsigned*>(bits)) atomicMax(bits, largest);
}

}  // namespace partita::internal::cuda
