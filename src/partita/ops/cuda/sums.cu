#include "partita/ops/cuda/sums.h"

#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/launch.h"

namespace partita::internal::cuda {
namespace {

constexpr int kSumThreads = 1024;

__global__ void __launch_bounds__(kSumThreads)
    add_partial_sums_kernel(const double* partial, int64_t parts, int vectors, double* out) {
  __shared__ double shared[kWarp];
  double sum = 0;
  for (int64_t part = threadIdx.x; part < parts; part += kSumThreads) sum += partial[part * vectors + blockIdx.x];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) out[blockIdx.x] += sum;
}

struct Out {
  float* gradient[3];
  bool accumulate[3];
};

// A block sums 32 columns: warp y adds every 32nd part starting at y, then warp 0 adds the 32 results.
__global__ void __launch_bounds__(kSumThreads)
    add_column_sums_kernel(const float* partial, int64_t parts, int64_t columns, const __grid_constant__ Out out) {
  __shared__ float shared[kWarp][kWarp];
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  const unsigned vector = blockIdx.y, vectors = gridDim.y;
  float* gradient = out.gradient[vector];
  if (gradient == nullptr) return;
  float sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (int64_t part = threadIdx.y; part < parts; part += kWarp)
      sum += partial[(part * vectors + vector) * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  sum = out.accumulate[vector] ? gradient[column] : 0;
#pragma unroll
  for (int y = 0; y < kWarp; ++y) sum += shared[y][threadIdx.x];
  gradient[column] = sum;
}

}  // namespace

void add_partial_sums(const double* partial, int64_t parts, int vectors, double* out) {
  add_partial_sums_kernel<<<static_cast<unsigned>(vectors), kSumThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      partial, parts, vectors, out);
  PARTITA_LAUNCHED();
}

void add_column_sums(const float* partial, int64_t parts, int vectors, int64_t columns, const ColumnTargets& targets) {
  if (columns == 0) return;
  Out out{};
  bool wanted = false;
  for (int v = 0; v < vectors; ++v) {
    out.gradient[v] = mutable_data_or_null<float>(targets.target[v].gradient);
    out.accumulate[v] = targets.target[v].accumulate;
    wanted |= out.gradient[v] != nullptr;
  }
  if (!wanted) return;
  const dim3 grid(static_cast<unsigned>(divide_up(columns, kWarp)), static_cast<unsigned>(vectors));
  add_column_sums_kernel<<<grid, dim3(kWarp, kWarp), 0, c10::cuda::getCurrentCUDAStream()>>>(partial, parts, columns,
                                                                                             out);
  PARTITA_LAUNCHED();
}

}  // namespace partita::internal::cuda
