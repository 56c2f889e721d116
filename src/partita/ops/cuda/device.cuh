// Shared code of the activation kernels: packs of consecutive row elements, and sums over a block.
//
//   using P = Pack<T, 8>;
//   float x[8];
//   widen(load<kAligned, 8>(in + 8 * p, count), x);      // fp32, bf16 or fp16 memory, fp32 arithmetic
//   store<kAligned>(out + 8 * p, narrow<T>(x), count);   // rounded to nearest even
//
// kAligned: the address is a multiple of 16 bytes (8 for packs of 8 bytes) and the pack is complete; it is accessed in
// one or two instructions, ignoring `count`. Otherwise the first `count` elements are accessed one by one and the rest
// read as 0.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace partita::internal::cuda {

inline constexpr int kWarp = 32;

// n elements in their memory format.
template <class T, int n>
struct Pack {
  static constexpr int kWords = n * static_cast<int>(sizeof(T)) / 4;
  static_assert(kWords >= 2 && n * sizeof(T) % 8 == 0);
  uint32_t word[kWords];
};

template <class T>
inline constexpr bool kIsHalf = sizeof(T) == 2;

template <bool kAligned, int n, class T>
__device__ __forceinline__ Pack<T, n> load(const T* p, int64_t count) {
  Pack<T, n> pack;
  if constexpr (!kAligned) {
#pragma unroll
    for (int w = 0; w < pack.kWords; ++w) pack.word[w] = 0;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (i >= count) continue;
      if constexpr (kIsHalf<T>)
        pack.word[i / 2] |= static_cast<uint32_t>(reinterpret_cast<const uint16_t*>(p)[i]) << (16 * (i & 1));
      else
        pack.word[i] = reinterpret_cast<const uint32_t*>(p)[i];
    }
  } else if constexpr (pack.kWords % 4 == 0) {
#pragma unroll
    for (int w = 0; w < pack.kWords; w += 4) {
      const uint4 v = reinterpret_cast<const uint4*>(p)[w / 4];
      pack.word[w] = v.x, pack.word[w + 1] = v.y, pack.word[w + 2] = v.z, pack.word[w + 3] = v.w;
    }
  } else {
    static_assert(pack.kWords == 2);
    const uint2 v = *reinterpret_cast<const uint2*>(p);
    pack.word[0] = v.x, pack.word[1] = v.y;
  }
  return pack;
}

template <bool kAligned, class T, int n>
__device__ __forceinline__ void store(T* p, const Pack<T, n>& pack, int64_t count) {
  if constexpr (!kAligned) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if (i >= count) continue;
      if constexpr (kIsHalf<T>)
        reinterpret_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(pack.word[i / 2] >> (16 * (i & 1)));
      else
        reinterpret_cast<uint32_t*>(p)[i] = pack.word[i];
    }
  } else if constexpr (pack.kWords % 4 == 0) {
#pragma unroll
    for (int w = 0; w < pack.kWords; w += 4)
      reinterpret_cast<uint4*>(p)[w / 4] =
          make_uint4(pack.word[w], pack.word[w + 1], pack.word[w + 2], pack.word[w + 3]);
  } else {
    static_assert(pack.kWords == 2);
    *reinterpret_cast<uint2*>(p) = make_uint2(pack.word[0], pack.word[1]);
  }
}

// Widens a pack to fp32.
template <class T, int n>
__device__ __forceinline__ void widen(const Pack<T, n>& pack, float (&x)[n]) {
#pragma unroll
  for (int w = 0; w < pack.kWords; ++w) {
    const uint32_t word = pack.word[w];
    if constexpr (std::is_same_v<T, float>) {
      x[w] = __uint_as_float(word);
    } else if constexpr (std::is_same_v<T, at::BFloat16>) {
      x[2 * w] = __uint_as_float(word << 16);
      x[2 * w + 1] = __uint_as_float(word & 0xFFFF0000U);
    } else {
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&word));
      x[2 * w] = two.x, x[2 * w + 1] = two.y;
    }
  }
}

// Rounds to nearest even; NaN stays NaN.
template <class T, int n>
__device__ __forceinline__ Pack<T, n> narrow(const float (&x)[n]) {
  Pack<T, n> pack;
#pragma unroll
  for (int w = 0; w < pack.kWords; ++w) {
    if constexpr (std::is_same_v<T, float>) {
      pack.word[w] = __float_as_uint(x[w]);
    } else if constexpr (std::is_same_v<T, at::BFloat16>) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(x[2 * w], x[2 * w + 1]);
      pack.word[w] = *reinterpret_cast<const uint32_t*>(&two);
    } else {
      const __half2 two = __floats2half2_rn(x[2 * w], x[2 * w + 1]);
      pack.word[w] = *reinterpret_cast<const uint32_t*>(&two);
    }
  }
  return pack;
}

// Rounds x to T, in place and to memory.
template <bool kAligned, class T, int n>
__device__ __forceinline__ void store_rounded(T* p, float (&x)[n], int64_t count) {
  const Pack<T, n> pack = narrow<T>(x);
  store<kAligned>(p, pack, count);
  widen(pack, x);
}

// 2^x within 2 ulp; underflows to 0 and overflows to inf.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <class N>
__device__ __forceinline__ N warp_sum(N x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFU, x, step);
  return x;
}

// Bitwise reproducible sum over the block, returned to all its threads. `partial` [32] in shared memory must not be in
// use by an earlier call without a barrier in between.
template <class N>
__device__ __forceinline__ N block_sum(N x, N* partial) {
  const unsigned warps = (blockDim.x + kWarp - 1) / kWarp, lane = threadIdx.x % kWarp;
  x = warp_sum(x);
  if (warps == 1) return x;
  if (lane == 0) partial[threadIdx.x / kWarp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? partial[lane] : N{0});
}

}  // namespace partita::internal::cuda
