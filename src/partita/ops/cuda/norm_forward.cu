#include "partita/ops/cuda/amax.cuh"
#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/mask.cuh"
#include "partita/ops/cuda/norm.h"
#include "partita/ops/cuda/norm_problem.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {
namespace {

template <class T>
struct Forward {
  const T *sum, *branch, *bias, *weight, *norm_bias;  // sum, bias and norm_bias may be null
  T *residual, *normed;
  float *mean, *rstd;  // mean null: RMS norm
  float* amax;         // of normed; may be null
  int64_t C;
  float epsilon;
  MaskArguments mask;
};

// Applies weight and bias of a norm to a pack; returns its largest magnitude.
template <bool kAligned, class T>
__device__ __forceinline__ uint32_t normalize(T* normed, const float (&x)[8], const T* weight, const T* bias,
                                              float mean, float rstd, int64_t column, int64_t count) {
  float w[8], b[8], y[8];
  widen(load<kAligned, 8>(weight + column, count), w);
  if (bias != nullptr) widen(load<kAligned, 8>(bias + column, count), b);
#pragma unroll
  for (int i = 0; i < 8; ++i) y[i] = bias != nullptr ? fmaf((x[i] - mean) * rstd, w[i], b[i]) : x[i] * rstd * w[i];
  const auto pack = narrow<T>(y);
  store<kAligned>(normed + column, pack, count);
  return larger(0, pack);
}

// One row per block, kept in registers between add, statistics and norm: each operand is read and written once.
template <class T, int kPacks, bool kAligned>
__global__ void __launch_bounds__(kMostNormThreads) add_norm_kernel(const Forward<T> a) {
  __shared__ float partial[2][kWarp];
  const uint32_t row = blockIdx.x;
  const int64_t begin = int64_t{row} * a.C;
  const Mask mask(a.mask, row);
  float x[kPacks][8];
  float total = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t column = 8 * (int64_t{k} * blockDim.x + threadIdx.x), count = a.C - column;
#pragma unroll
    for (int i = 0; i < 8; ++i) x[k][i] = 0;
    if (count <= 0) continue;
    const auto branch = load<kAligned, 8>(a.branch + begin + column, count);
    Pack<T, 8> sum;
    if (a.sum != nullptr) sum = load<kAligned, 8>(a.sum + begin + column, count);
    widen(branch, x[k]);
    if (a.bias != nullptr) {
      float bias[8];
      widen(load<kAligned, 8>(a.bias + column, count), bias);
#pragma unroll
      for (int i = 0; i < 8; ++i) x[k][i] += bias[i];
    }
    if (mask.drops()) mask.template apply<kAligned>(x[k], mask.begin(a.C) + column);
    if (a.sum != nullptr) {
      float before[8];
      widen(sum, before);
#pragma unroll
      for (int i = 0; i < 8; ++i) x[k][i] += before[i];
    }
    store_rounded<kAligned>(a.residual + begin + column, x[k], count);
#pragma unroll
    for (int i = 0; i < 8; ++i) total += x[k][i];
  }
  const float mean = a.mean != nullptr ? block_sum(total, partial[0]) / static_cast<float>(a.C) : 0;
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t count = a.C - 8 * (int64_t{k} * blockDim.x + threadIdx.x);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < count) squares = fmaf(x[k][i] - mean, x[k][i] - mean, squares);
  }
  const float variance = block_sum(squares, partial[1]) / static_cast<float>(a.C);
  const float rstd = 1 / sqrtf(variance + a.epsilon);
  if (threadIdx.x == 0) {
    if (a.mean != nullptr) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
  uint32_t largest = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const int64_t column = 8 * (int64_t{k} * blockDim.x + threadIdx.x), count = a.C - column;
    if (count > 0)
      largest =
          max(largest, normalize<kAligned>(a.normed + begin, x[k], a.weight, a.norm_bias, mean, rstd, column, count));
  }
  if (a.amax != nullptr) record_amax(a.amax, largest);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) norm_recompute_kernel(const Forward<T> a, uint32_t packs, int64_t rows) {
  const int64_t pack = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = pack / packs;
  if (row >= rows) return;
  const int64_t column = 8 * (pack % packs), count = a.C - column;
  float x[8];
  widen(load<kAligned, 8>(a.residual + row * a.C + column, count), x);
  normalize<kAligned>(a.normed + row * a.C, x, a.weight, a.norm_bias, a.mean != nullptr ? a.mean[row] : 0, a.rstd[row],
                      column, count);
}

}  // namespace

void add_norm_forward(const AddNorm& op) {
  const RowsOperand size = check_operands(op, at::kCUDA);
  const int64_t N = size.rows, C = size.columns;
  const MaskArguments mask = make_mask(op.dropout, N);
  if (N == 0) return;
  const bool whole = C % 8 == 0 && aligned(op.sum, op.branch, op.bias, op.weight, op.norm_bias, op.residual, op.normed);
  const RowLayout form = row_layout(C, whole);
  with_type(size.dtype, [&]<class T>(T) {
    const Forward<T> arguments{.sum = data_or_null<T>(op.sum),
                               .branch = op.branch.const_data_ptr<T>(),
                               .bias = data_or_null<T>(op.bias),
                               .weight = op.weight.const_data_ptr<T>(),
                               .norm_bias = data_or_null<T>(op.norm_bias),
                               .residual = op.residual.mutable_data_ptr<T>(),
                               .normed = op.normed.mutable_data_ptr<T>(),
                               .mean = mutable_data_or_null<float>(op.mean),
                               .rstd = op.rstd.mutable_data_ptr<float>(),
                               .amax = mutable_data_or_null<float>(op.amax),
                               .C = C,
                               .epsilon = static_cast<float>(op.epsilon),
                               .mask = mask};
    with_layout(form, whole, [&]<class Packs, class Whole>(Packs, Whole) {
      add_norm_kernel<T, Packs::value, Whole::value>
          <<<static_cast<unsigned>(N), form.threads, 0, c10::cuda::getCurrentCUDAStream()>>>(arguments);
    });
  });
  PARTITA_LAUNCHED();
}

void norm_recompute(at::Tensor normed, at::Tensor residual, at::Tensor mean, at::Tensor rstd, at::Tensor weight,
                    at::Tensor norm_bias) {
  const RowsOperand size = check_norm_recompute(normed, residual, mean, rstd, weight, norm_bias, at::kCUDA);
  const int64_t N = size.rows, C = size.columns;
  if (N == 0) return;
  const auto packs = static_cast<uint32_t>(divide_up(C, 8));
  with_type(size.dtype, [&]<class T>(T) {
    const Forward<T> arguments{.weight = weight.const_data_ptr<T>(),
                               .norm_bias = data_or_null<T>(norm_bias),
                               .residual = residual.mutable_data_ptr<T>(),
                               .normed = normed.mutable_data_ptr<T>(),
                               .mean = mutable_data_or_null<float>(mean),
                               .rstd = rstd.mutable_data_ptr<float>(),
                               .C = C};
    with_bool(C % 8 == 0 && aligned(normed, residual, weight, norm_bias), [&]<class Whole>(Whole) {
      norm_recompute_kernel<T, Whole::value>
          <<<blocks_for(N * packs), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(arguments, packs, N);
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace partita::internal::cuda
