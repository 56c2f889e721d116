#include "partita/ops/cuda/amax.cuh"
#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/mask.cuh"
#include "partita/ops/cuda/norm.h"
#include "partita/ops/cuda/norm_problem.h"
#include "partita/ops/cuda/sums.h"
#include "partita/ops/cuda/workspace.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {
namespace {

constexpr int kVectors = 3;  // d_weight, d_norm_bias, d_bias

template <class T>
struct Backward {
  const T *d_normed, *d_sum, *residual, *weight;  // d_sum may be null
  const float *mean, *rstd;                       // mean null: RMS norm
  T *d_residual, *d_branch;                       // d_branch null: equals d_residual
  float* partial;                                 // [blocks, kVectors, C]
  float* amax;                                    // of d_branch, or d_residual without it; may be null
  bool wanted[kVectors];
  int64_t rows, C;
  MaskArguments mask;
};

// Whether to prefetch the next row: registers suffice except for the longest rows.
template <int kPacks>
inline constexpr bool kAhead = kPacks < 4;

// A thread's part of a row.
template <class T, int kPacks>
struct RowPart {
  Pack<T, 8> d_normed[kPacks], residual[kPacks], d_sum[kPacks];
  float mean, rstd;
};

template <bool kAligned, int kPacks, class T>
__device__ __forceinline__ void read_row(RowPart<T, kPacks>& part, const Backward<T>& a, int64_t row) {
  part.mean = a.mean != nullptr ? a.mean[row] : 0;
  part.rstd = a.rstd[row];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t column = 8 * (int64_t{k} * blockDim.x + threadIdx.x), count = a.C - column, at = row * a.C + column;
    if (count <= 0) continue;
    part.d_normed[k] = load<kAligned, 8>(a.d_normed + at, count);
    part.residual[k] = load<kAligned, 8>(a.residual + at, count);
    if (a.d_sum != nullptr) part.d_sum[k] = load<kAligned, 8>(a.d_sum + at, count);
  }
}

__device__ __forceinline__ float2 block_sum_of_two(float2 x, float2* partial) {
  const unsigned warps = (blockDim.x + kWarp - 1) / kWarp, lane = threadIdx.x % kWarp;
  x = {warp_sum(x.x), warp_sum(x.y)};
  if (warps == 1) return x;
  if (lane == 0) partial[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = lane < warps ? partial[lane] : float2{0, 0};
  return {warp_sum(x.x), warp_sum(x.y)};
}

// Processes rows blockIdx.x, blockIdx.x + gridDim.x ... with column sums in registers, written to `partial` at the end.
// With h = d_normed * weight: d_residual = rstd * (h - mean(h) - x_hat * mean(h * x_hat)) + d_sum; RMS norm has no
// mean(h).
template <class T, int kPacks, bool kMean, bool kAligned>
__global__ void __launch_bounds__(kMostNormThreads) add_norm_backward_kernel(const Backward<T> a) {
  __shared__ float2 partial[2][kWarp];  // alternates, so that a row needs only one barrier
  Pack<T, 8> weight[kPacks];
  float sum_weight[kPacks][8], sum_norm_bias[kMean ? kPacks : 1][8], sum_bias[kPacks][8];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t column = 8 * (int64_t{k} * blockDim.x + threadIdx.x);
    if (column < a.C) weight[k] = load<kAligned, 8>(a.weight + column, a.C - column);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum_weight[k][i] = sum_bias[k][i] = 0;
      if constexpr (kMean) sum_norm_bias[k][i] = 0;
    }
  }
  const float per_channel = 1 / static_cast<float>(a.C);
  RowPart<T, kPacks> part, next;
  if constexpr (kAhead<kPacks>) read_row<kAligned>(next, a, blockIdx.x);
  int turn = 0;
  uint32_t largest = 0;
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x, turn ^= 1) {
    if constexpr (kAhead<kPacks>) {
      part = next;
      if (row + gridDim.x < a.rows) read_row<kAligned>(next, a, row + gridDim.x);
    } else {
      read_row<kAligned>(part, a, row);
    }
    float2 sums = {0, 0};  // of h and h (x - mean)
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (8 * (int64_t{k} * blockDim.x + threadIdx.x) >= a.C) continue;
      float dy[8], x[8], w[8];
      widen(part.d_normed[k], dy);
      widen(part.residual[k], x);
      widen(weight[k], w);
#pragma unroll
      for (int i = 0; i < 8; ++i) {  // beyond the row, dy and w are 0
        const float h = __fmul_rn(dy[i], w[i]);
        if constexpr (kMean) sums.x += h;
        sums.y = fmaf(h, x[i] - part.mean, sums.y);
      }
    }
    sums = block_sum_of_two(sums, partial[turn]);
    const float mean_h = sums.x * per_channel, mean_hx = sums.y * part.rstd * per_channel;
    const Mask mask(a.mask, static_cast<uint32_t>(row));
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const int64_t column = 8 * (int64_t{k} * blockDim.x + threadIdx.x), count = a.C - column, at = row * a.C + column;
      if (count <= 0) continue;
      float dy[8], x[8], w[8], d[8];
      widen(part.d_normed[k], dy);
      widen(part.residual[k], x);
      widen(weight[k], w);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float x_hat = (x[i] - part.mean) * part.rstd;
        sum_weight[k][i] = fmaf(dy[i], x_hat, sum_weight[k][i]);
        if constexpr (kMean) sum_norm_bias[k][i] += dy[i];
        // h is rounded the same way as in its mean, so that equal values cancel exactly
        d[i] = fmaf(-x_hat, mean_hx, __fmul_rn(dy[i], w[i]) - mean_h) * part.rstd;
      }
      if (a.d_sum != nullptr) {
        float past[8];
        widen(part.d_sum[k], past);
#pragma unroll
        for (int i = 0; i < 8; ++i) d[i] += past[i];
      }
      store_rounded<kAligned>(a.d_residual + at, d, count);
      if (a.d_branch != nullptr) {
        if (mask.drops()) mask.template apply<kAligned>(d, mask.begin(a.C) + column);
        store_rounded<kAligned>(a.d_branch + at, d, count);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)  // from the rounded values in memory
        if (kAligned || i < count) largest = max(largest, __float_as_uint(d[i]) & 0x7FFFFFFFU);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum_bias[k][i] += d[i];
    }
  }
  if (a.amax != nullptr) record_amax(a.amax, largest);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t column = 8 * (int64_t{k} * blockDim.x + threadIdx.x), count = a.C - column;
    if (count <= 0) continue;
    float* out = a.partial + int64_t{blockIdx.x} * kVectors * a.C + column;
    if (a.wanted[0]) store<kAligned>(out, narrow<float>(sum_weight[k]), count);
    if constexpr (kMean)
      if (a.wanted[1]) store<kAligned>(out + a.C, narrow<float>(sum_norm_bias[k]), count);
    if (a.wanted[2]) store<kAligned>(out + 2 * a.C, narrow<float>(sum_bias[k]), count);
  }
}

template <class T>
void run(const AddNormBackward& op, const MaskArguments& mask) {
  const int64_t N = op.residual.size(0), C = op.residual.size(1);
  Backward<T> arguments{
      .d_normed = op.d_normed.const_data_ptr<T>(),
      .d_sum = data_or_null<T>(op.d_sum),
      .residual = op.residual.const_data_ptr<T>(),
      .weight = op.weight.const_data_ptr<T>(),
      .mean = data_or_null<float>(op.mean),
      .rstd = op.rstd.const_data_ptr<float>(),
      .d_residual = op.d_residual.mutable_data_ptr<T>(),
      .d_branch = op.dropout.p > 0 ? op.d_branch.mutable_data_ptr<T>() : nullptr,
      .amax = mutable_data_or_null<float>(op.amax),
      .wanted = {op.d_weight.gradient.defined(), op.d_norm_bias.gradient.defined(), op.d_bias.gradient.defined()},
      .rows = N,
      .C = C,
      .mask = mask};
  const bool whole = C % 8 == 0 && aligned(op.d_normed, op.d_sum, op.residual, op.weight, op.d_residual) &&
                     (op.dropout.p == 0 || aligned(op.d_branch));
  const RowLayout form = row_layout(C, whole);
  int64_t blocks = 0;
  with_layout(form, whole, [&]<class Packs, class Whole>(Packs, Whole) {
    with_bool(op.mean.defined(), [&]<class Mean>(Mean) {
      const auto kernel = add_norm_backward_kernel<T, Packs::value, Mean::value, Whole::value>;
      blocks = std::min(N, resident_blocks(kernel, form.threads));
      arguments.partial =
          reinterpret_cast<float*>(workspace(blocks * kVectors * C * static_cast<int64_t>(sizeof(float))));
      if (blocks > 0)
        kernel<<<static_cast<unsigned>(blocks), form.threads, 0, c10::cuda::getCurrentCUDAStream()>>>(arguments);
    });
  });
  PARTITA_LAUNCHED();
  add_column_sums(arguments.partial, blocks, kVectors, C, {{op.d_weight, op.d_norm_bias, op.d_bias}});
}

}  // namespace

void add_norm_backward(const AddNormBackward& op) {
  const RowsOperand size = check_operands(op, at::kCUDA);
  const MaskArguments mask = make_mask(op.dropout, size.rows);
  with_type(size.dtype, [&]<class T>(T) { run<T>(op, mask); });
}

}  // namespace partita::internal::cuda
