// A block reads and writes rows of logits in packs of 16 bytes, and takes their maximum and the sum of exponentials.
//
//   const RowPacks<T> row(logits, columns);                       // of any alignment
//   for (int64_t p = threadIdx.x; p < row.packs; p += blockDim.x) {
//     auto pack = row.read(p);                                    // elements outside the row: -inf
//     ...
//     row.write(p, pack);                                         // only elements of the row
//   }
#pragma once
#include <cstdint>
#include <limits>

#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/gelu.cuh"

namespace partita::internal::cuda {

inline constexpr int kRowThreads = 512;

// Packs start at the aligned address at or below the start of the row: the first and last may extend into neighboring
// rows, and only their own part is accessed.
template <class T>
struct RowPacks {
  static constexpr int n = 16 / sizeof(T);  // elements of a pack

  __device__ __forceinline__ RowPacks(T* row, int64_t columns)
      : before(static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T))),
        base(row - before),
        end(before + columns),
        packs((end + n - 1) / n),
        inner(end / n) {}

  [[nodiscard]] __device__ __forceinline__ bool whole(int64_t p) const { return p < inner && (p > 0 || before == 0); }
  [[nodiscard]] __device__ __forceinline__ Pack<T, n> read(int64_t p) const {
    if (whole(p)) return load<true, n>(base + p * n, n);
    float x[n];
#pragma unroll
    for (int i = 0; i < n; ++i)
      x[i] = p * n + i >= before && p * n + i < end ? static_cast<float>(base[p * n + i]) : -INFINITY;
    return narrow<T>(x);
  }
  __device__ __forceinline__ void write(int64_t p, const Pack<T, n>& pack) const {
    if (whole(p)) return store<true>(base + p * n, pack, n);
    float x[n];
    widen(pack, x);
#pragma unroll
    for (int i = 0; i < n; ++i)
      if (p * n + i >= before && p * n + i < end) base[p * n + i] = static_cast<T>(x[i]);
  }
  // By the whole block.
  __device__ __forceinline__ void clear() const {
    const Pack<T, n> zero{};
    for (int64_t p = threadIdx.x; p < packs; p += kRowThreads) write(p, zero);
  }

  int64_t before;  // pack p starts at element n p - before of the row
  T* base;
  int64_t end, packs;
  int64_t inner;  // packs 1 (or 0) .. inner - 1 are complete
};

// Maximum of the elements so far, and sum of 2^(log2(e) (x - maximum)); elements can be added in any number and order.
struct Softmax {
  float maximum, sum;
};

template <int n>
__device__ __forceinline__ void add(Softmax& s, const float (&x)[n]) {
  float maximum = s.maximum;
#pragma unroll
  for (int i = 0; i < n; ++i) maximum = fmaxf(maximum, x[i]);
  s.sum *= exp2_fast((s.maximum - maximum) * kLog2E);
  s.maximum = maximum;
#pragma unroll
  for (int i = 0; i < n; ++i) s.sum += exp2_fast((x[i] - maximum) * kLog2E);
}

// The softmax of the elements read by one thread of kRowThreads; keep(p, pack) is called for every pack.
template <class T, class Keep>
__device__ __forceinline__ Softmax softmax_of_thread(const RowPacks<T>& row, const Keep& keep) {
  constexpr int n = RowPacks<T>::n, kInFlight = 4;  // packs in flight
  Softmax mine{std::numeric_limits<float>::lowest(), 0};
  for (int64_t first = threadIdx.x; first < row.packs; first += kInFlight * kRowThreads) {
    Pack<T, n> pack[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (first + k * kRowThreads < row.packs) pack[k] = row.read(first + k * kRowThreads);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t p = first + k * kRowThreads;
      if (p >= row.packs) continue;
      float x[n];
      widen(pack[k], x);
      add(mine, x);
      keep(p, pack[k]);
    }
  }
  return mine;
}

__device__ __forceinline__ float warp_maximum(float x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, step));
  return x;
}

// Of the row: the threads' softmaxes combined, for all threads of a block of kRowThreads. Two barriers.
struct RowSoftmax {
  float maximum;
  double sum;
};
__device__ __forceinline__ RowSoftmax softmax_of_block(const Softmax& mine) {
  __shared__ float maxima[kWarp];
  __shared__ double sums[kWarp];
  const unsigned lane = threadIdx.x % kWarp;
  float maximum = warp_maximum(mine.maximum);
  if (lane == 0) maxima[threadIdx.x / kWarp] = maximum;
  __syncthreads();
  maximum = warp_maximum(lane < kRowThreads / kWarp ? maxima[lane] : mine.maximum);
  const double part = static_cast<double>(mine.sum) * exp2_fast((mine.maximum - maximum) * kLog2E);
  return {maximum, block_sum(part, sums)};
}

}  // namespace partita::internal::cuda
