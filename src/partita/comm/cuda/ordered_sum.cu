#include "partita/comm/cuda/ordered_sum.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "partita/base/cuda_error.h"

namespace partita::internal {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1024;  // eight per multiprocessor: leaves room for concurrent work

template <class T>
using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

template <class T>
__device__ T add(T a, T b) {
  // Signed integers wrap around.
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

template <class T>
__device__ T larger(T a, T b) {
  return b > a || b != b ? b : a;  // b != b if b is NaN
}

// Aligned for 16-byte accesses, or for its whole size if smaller.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T x[kCount];
};

struct RowsOfRanks {
  const void *rows, *mine;
  int rank, ranks;
  template <class T>
  __device__ const T* row(int r, int64_t n) const {
    return r == rank ? static_cast<const T*>(mine) : static_cast<const T*>(rows) + r * n;
  }
};

// Thread i processes elements i * kCount ...; n is a multiple of kCount.
template <class To, class From, int kCount, Reduce kKind>
__global__ void reduce_kernel(To* out, RowsOfRanks rows, int64_t n) {
  using Sum = Wide<From>;
  for (int64_t i = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * kCount; i < n;
       i += gridDim.x * int64_t{kThreads} * kCount) {
    Sum sum[kCount];
    for (int r = 0; r < rows.ranks; ++r) {
      const auto pack = *reinterpret_cast<const Pack<From, kCount>*>(rows.row<From>(r, n) + i);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const auto x = static_cast<Sum>(pack.x[j]);
        if (r == 0)
          sum[j] = x;
        else
          sum[j] = kKind == Reduce::sum ? add(sum[j], x) : larger(sum[j], x);
      }
    }
    Pack<To, kCount> result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) result.x[j] = static_cast<To>(sum[j]);
    *reinterpret_cast<Pack<To, kCount>*>(out + i) = result;
  }
}

template <class To, class From, int kCount>
void launch(Reduce kind, To* out, const RowsOfRanks& rows, int64_t n, cudaStream_t stream) {
  const int64_t threads = (n / kCount + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(std::min(threads, kMostBlocks));
  if (kind == Reduce::sum)
    reduce_kernel<To, From, kCount, Reduce::sum><<<blocks, kThreads, 0, stream>>>(out, rows, n);
  else
    reduce_kernel<To, From, kCount, Reduce::max><<<blocks, kThreads, 0, stream>>>(out, rows, n);
  PARTITA_CUDA_CHECK(cudaGetLastError());
}

template <class To, class From>
void reduce(Reduce kind, void* out, const RowsOfRanks& rows, int64_t n, cudaStream_t stream) {
  constexpr int kCount = 16 / sizeof(From);
  const auto place = reinterpret_cast<uintptr_t>(rows.rows) | reinterpret_cast<uintptr_t>(rows.mine) |
                     reinterpret_cast<uintptr_t>(out);
  if (place % 16 == 0 && n % kCount == 0)
    launch<To, From, kCount>(kind, static_cast<To*>(out), rows, n, stream);
  else
    launch<To, From, 1>(kind, static_cast<To*>(out), rows, n, stream);
}

}  // namespace

void reduce_rows_on_device(Reduce kind, c10::ScalarType to, void* out, c10::ScalarType from, const void* rows,
                           const void* mine, int rank, int ranks, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  const RowsOfRanks all{rows, mine, rank, ranks};
  using enum c10::ScalarType;
  if (to == Float && from == BFloat16) return reduce<float, __nv_bfloat16>(kind, out, all, n, stream);
  if (to == Float && from == Half) return reduce<float, __half>(kind, out, all, n, stream);
  PARTITA_CHECK(to == from, "a pair of dtypes that is not reduced");
  switch (from) {
    case Float:
      return reduce<float, float>(kind, out, all, n, stream);
    case Double:
      return reduce<double, double>(kind, out, all, n, stream);
    case BFloat16:
      return reduce<__nv_bfloat16, __nv_bfloat16>(kind, out, all, n, stream);
    case Half:
      return reduce<__half, __half>(kind, out, all, n, stream);
    case Int:
      return reduce<int32_t, int32_t>(kind, out, all, n, stream);
    case Long:
      return reduce<int64_t, int64_t>(kind, out, all, n, stream);
    case Byte:
      return reduce<uint8_t, uint8_t>(kind, out, all, n, stream);
    default:
      PARTITA_CHECK(false, "a dtype that is not reduced");
  }
}

}  // namespace partita::internal
