// Backward passes that end in column sums over all rows: GELU with its bias, and a bias alone.
#include "partita/ops/cuda/activation.h"
#include "partita/ops/cuda/amax.cuh"
#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/gelu.cuh"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/sums.h"
#include "partita/ops/cuda/workspace.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {
namespace {

constexpr int kBlockRows = kThreads / kWarp;  // rows covered by a block's threads; a warp handles 32 packs of a row
constexpr int kRows = 4;                      // rows in flight per thread

template <class T>
struct Sums {
  T* d_x;
  const T *d, *x;  // x null: sums d as it is, without writing d_x
  float* partial;  // [gridDim.y, C]; may be null
  float* amax;     // of d_x; may be null
  int64_t rows, C;
};

// Block (tile, part): columns 256 * tile .. + 255 of every gridDim.y-th group of rows, starting at group `part`.
template <class T, bool kGelu, bool kAligned>
__global__ void __launch_bounds__(kThreads) column_sums_kernel(const Sums<T> a) {
  __shared__ float shared[kBlockRows][8][kWarp];
  const int64_t column = 8 * (int64_t{blockIdx.x} * kWarp + threadIdx.x), count = a.C - column;
  const int64_t step = int64_t{gridDim.y} * kBlockRows;
  float sum[8] = {};
  uint32_t largest = 0;
  if (count > 0) {
    for (int64_t row = int64_t{blockIdx.y} * kBlockRows + threadIdx.y; row < a.rows; row += kRows * step) {
      Pack<T, 8> d[kRows], x[kGelu ? kRows : 1];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int64_t at = (row + r * step) * a.C + column;
        if (row + r * step >= a.rows) continue;
        d[r] = load<kAligned, 8>(a.d + at, count);
        if constexpr (kGelu) x[r] = load<kAligned, 8>(a.x + at, count);
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row + r * step >= a.rows) continue;
        float value[8];
        widen(d[r], value);
        if constexpr (kGelu) {
          float at_x[8];
          widen(x[r], at_x);
#pragma unroll
          for (int i = 0; i < 8; ++i) value[i] *= gelu_slope(at_x[i]);
          const auto pack = narrow<T>(value);
          store<kAligned>(a.d_x + (row + r * step) * a.C + column, pack, count);
          widen(pack, value);
          largest = larger(largest, pack);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += value[i];
      }
    }
  }
  if constexpr (kGelu)
    if (a.amax != nullptr) record_amax(a.amax, largest);
  if (a.partial == nullptr) return;
#pragma unroll
  for (int i = 0; i < 8; ++i) shared[threadIdx.y][i][threadIdx.x] = sum[i];
  __syncthreads();
  // Warp y adds up element y of each pack.
  float total = 0;
#pragma unroll
  for (int y = 0; y < kBlockRows; ++y) total += shared[y][threadIdx.y][threadIdx.x];
  if (threadIdx.y < count) a.partial[blockIdx.y * a.C + column + threadIdx.y] = total;
}
static_assert(kBlockRows == 8, "a warp for each element of a pack");

template <bool kGelu, class T>
void launch(Sums<T> sums, bool whole, const Target& d_bias) {
  if (sums.rows * sums.C == 0) {
    if (sums.C > 0) add_column_sums(nullptr, 0, 1, sums.C, {{d_bias}});
    return;
  }
  const int64_t tiles = divide_up(sums.C, 8 * kWarp);
  int64_t parts = 0;
  with_bool(whole, [&]<class Aligned>(Aligned) {
    const auto kernel = column_sums_kernel<T, kGelu, Aligned::value>;
    static const int64_t resident = resident_blocks(kernel, kThreads);
    parts = std::clamp<int64_t>(resident / tiles, 1, divide_up(sums.rows, kBlockRows));
    if (d_bias.gradient.defined())
      sums.partial = reinterpret_cast<float*>(workspace(parts * sums.C * static_cast<int64_t>(sizeof(float))));
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(parts));
    kernel<<<grid, dim3(kWarp, kBlockRows), 0, c10::cuda::getCurrentCUDAStream()>>>(sums);
  });
  PARTITA_LAUNCHED();
  add_column_sums(sums.partial, parts, 1, sums.C, {{d_bias}});
}

}  // namespace

void bias_gelu_backward(at::Tensor d_x, at::Tensor d_out, at::Tensor x, Target d_bias, at::Tensor amax) {
  const RowsOperand size = check_bias_gelu_backward(d_x, d_out, x, d_bias, amax, at::kCUDA);
  with_type(size.dtype, [&]<class T>(T) {
    launch<true, T>({.d_x = d_x.mutable_data_ptr<T>(),
                     .d = d_out.const_data_ptr<T>(),
                     .x = x.const_data_ptr<T>(),
                     .amax = mutable_data_or_null<float>(amax),
                     .rows = size.rows,
                     .C = size.columns},
                    size.columns % 8 == 0 && aligned(d_x, d_out, x), d_bias);
  });
}

void bias_backward(at::Tensor d, Target d_bias) {
  if (!d_bias.gradient.defined()) return;
  const at::ScalarType dtype = check_activation(d, "d");
  const int64_t N = d.size(0), C = d.size(1);
  check_tensor(d, "d", {N, C}, dtype);
  check_tensor(d_bias.gradient, "d_bias", {C}, at::kFloat);
  with_type(dtype, [&]<class T>(T) {
    launch<false, T>({.d = d.const_data_ptr<T>(), .rows = N, .C = C}, C % 8 == 0 && aligned(d), d_bias);
  });
}

}  // namespace partita::internal::cuda
