#include "partita/ops/norm.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/column_sums.h"
#include "partita/ops/cpu/row_mask.h"
#include "partita/ops/cpu/targets.h"
#include "partita/ops/operand_checks.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/norm.h"
#endif
#include "partita/ops/device.h"
#include "partita/ops/fp8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/norm.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/row_mask-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// Tag of the dropout multipliers of up to kRowsAtOnce rows.
struct NormMultipliers;
constexpr int kRowsAtOnce = 4;

template <class T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

// r = sum + multiplier * (branch + bias), rounded; all but branch may be null. Returns the lane-wise sum of r.
template <class T>
HWY_INLINE V add_row(T* r, const T* sum, const T* branch, const T* bias, const float* multiplier, int64_t C) {
  V total = hn::Zero(D());
  for_vectors(C, [&](int64_t i, auto part) {
    V x = load(branch + i, part);
    if (bias != nullptr) x = hn::Add(x, load(bias + i, part));
    if (multiplier != nullptr) x = hn::Mul(x, load(multiplier + i, part));
    if (sum != nullptr) x = hn::Add(x, load(sum + i, part));
    total = hn::Add(total, store(x, r + i, part));
  });
  return total;
}

template <class T>
HWY_INLINE float variance_of(const T* r, float mean, int64_t C) {
  V squares = hn::Zero(D());
  for_vectors(C, [&](int64_t i, auto part) {
    const V centred = keep(hn::Sub(load(r + i, part), constant(mean)), part);
    squares = hn::MulAdd(centred, centred, squares);
  });
  return sum_of_lanes(squares) / static_cast<float>(C);
}

// For RMS norm, mean is 0 and bias null.
template <class T>
HWY_INLINE void normalize(T* normed, const T* r, const T* weight, const T* bias, float mean, float rstd, int64_t C) {
  if (bias == nullptr)
    return for_vectors(C, [&](int64_t i, auto part) {
      store(hn::Mul(hn::Mul(load(r + i, part), constant(rstd)), load(weight + i, part)), normed + i, part);
    });
  for_vectors(C, [&](int64_t i, auto part) {
    const V x_hat = hn::Mul(hn::Sub(load(r + i, part), constant(mean)), constant(rstd));
    store(hn::MulAdd(x_hat, load(weight + i, part), load(bias + i, part)), normed + i, part);
  });
}

template <class T>
void forward_as(const AddNorm& op, const RowMask& mask, int64_t begin, int64_t end) {
  const int64_t C = op.branch.size(1);
  const T *sum = data_or_null<T>(op.sum), *branch = op.branch.const_data_ptr<T>(), *bias = data_or_null<T>(op.bias);
  const T *weight = op.weight.const_data_ptr<T>(), *norm_bias = data_or_null<T>(op.norm_bias);
  T *residual = op.residual.mutable_data_ptr<T>(), *normed = op.normed.mutable_data_ptr<T>();
  float* means = op.mean.defined() ? op.mean.mutable_data_ptr<float>() : nullptr;
  float* rstds = op.rstd.mutable_data_ptr<float>();
  const bool masked = mask.drops();
  float* buffer = masked ? scratch<float, NormMultipliers>(C + kMaskPadding) : nullptr;
  for (int64_t row = begin; row < end; ++row) {
    const float* multiplier = masked ? row_multipliers(mask, row, C, buffer) : nullptr;
    T* r = residual + row * C;
    const V total = add_row(r, sum != nullptr ? sum + row * C : nullptr, branch + row * C, bias, multiplier, C);
    const float mean = means != nullptr ? sum_of_lanes(total) / static_cast<float>(C) : 0;
    const float rstd = 1 / std::sqrt(variance_of(r, mean, C) + static_cast<float>(op.epsilon));
    if (means != nullptr) means[row] = mean;
    rstds[row] = rstd;
    normalize(normed + row * C, r, weight, norm_bias, mean, rstd, C);
  }
}

void add_norm_rows(const AddNorm& op, const RowMask& mask, int64_t begin, int64_t end) {
  with_type_of(op.branch, [&]<class T>(T) { forward_as<T>(op, mask, begin, end); });
}

template <class T>
void recompute_as(const AddNorm& op, int64_t begin, int64_t end) {
  const int64_t C = op.residual.size(1);
  const T *residual = op.residual.const_data_ptr<T>(), *weight = op.weight.const_data_ptr<T>(),
          *norm_bias = data_or_null<T>(op.norm_bias);
  const float *mean = data_or_null<float>(op.mean), *rstd = op.rstd.const_data_ptr<float>();
  T* normed = op.normed.mutable_data_ptr<T>();
  for (int64_t row = begin; row < end; ++row)
    normalize(normed + row * C, residual + row * C, weight, norm_bias, mean != nullptr ? mean[row] : 0, rstd[row], C);
}

void recompute_rows(const AddNorm& op, int64_t begin, int64_t end) {
  with_type_of(op.residual, [&]<class T>(T) { recompute_as<T>(op, begin, end); });
}

template <class T>
struct Backward {
  explicit Backward(const AddNormBackward& op)
      : C(op.residual.size(1)),
        d_normed(op.d_normed.const_data_ptr<T>()),
        d_sum(data_or_null<T>(op.d_sum)),
        residual(op.residual.const_data_ptr<T>()),
        weight(op.weight.const_data_ptr<T>()),
        mean(data_or_null<float>(op.mean)),
        rstd(op.rstd.const_data_ptr<float>()),
        d_residual(op.d_residual.mutable_data_ptr<T>()),
        d_branch(op.dropout.p > 0 ? op.d_branch.mutable_data_ptr<T>() : nullptr),
        wanted{op.d_weight.gradient.defined(), op.d_norm_bias.gradient.defined(), op.d_bias.gradient.defined()} {}

  // Processes rows row .. row + kRows - 1, with column sums in registers. With h = d_normed * weight: d_residual = rstd
  // * (h - mean(h) - x_hat * mean(h * x_hat)) + d_sum; RMS norm has no mean(h). `partial` [3, C] accumulates the column
  // sums of d_weight, d_norm_bias and d_bias; unwanted ones cost only additions in registers, no memory access.
  template <int kRows>
  HWY_INLINE void rows(int64_t row, const float* const* multiplier, float* partial) const {
    float* sum_weight = wanted[0] ? partial : nullptr;
    float* sum_norm_bias = wanted[1] ? partial + C : nullptr;
    float* sum_bias = wanted[2] ? partial + 2 * C : nullptr;
    float means[kRows], mean_h[kRows], mean_hx[kRows];
    for (int r = 0; r < kRows; ++r) {
      means[r] = mean != nullptr ? mean[row + r] : 0;
      V sum_h = hn::Zero(D()), sum_hx = hn::Zero(D());
      const int64_t at = (row + r) * C;
      const V vector_mean = constant(means[r]);
      for_vectors(C, [&](int64_t i, auto part) {
        const V h = hn::Mul(load(d_normed + at + i, part), load(weight + i, part));
        sum_h = hn::Add(sum_h, h);
        sum_hx = hn::MulAdd(h, hn::Sub(load(residual + at + i, part), vector_mean), sum_hx);
      });
      mean_h[r] = mean != nullptr ? sum_of_lanes(sum_h) / static_cast<float>(C) : 0;
      mean_hx[r] = sum_of_lanes(sum_hx) * rstd[row + r] / static_cast<float>(C);
    }
    for_vectors(C, [&](int64_t i, auto part) {
      const V w = load(weight + i, part);
      const auto begin = [&](const float* sum) { return sum != nullptr ? load(sum + i, part) : hn::Zero(D()); };
      V d_weight = begin(sum_weight), d_norm_bias = begin(sum_norm_bias), d_bias = begin(sum_bias);
      for (int r = 0; r < kRows; ++r) {
        const int64_t at = (row + r) * C + i;
        const V dy = load(d_normed + at, part), scale = constant(rstd[row + r]);
        const V x_hat = hn::Mul(hn::Sub(load(residual + at, part), constant(means[r])), scale);
        d_weight = hn::MulAdd(dy, x_hat, d_weight);
        d_norm_bias = hn::Add(d_norm_bias, dy);
        V d = hn::Sub(hn::Mul(dy, w), constant(mean_h[r]));
        d = hn::Mul(hn::NegMulAdd(x_hat, constant(mean_hx[r]), d), scale);
        if (d_sum != nullptr) d = hn::Add(d, load(d_sum + at, part));
        d = store(d, d_residual + at, part);
        if (d_branch != nullptr) {
          if (multiplier[r] != nullptr) d = hn::Mul(d, load(multiplier[r] + i, part));
          d = store(d, d_branch + at, part);
        }
        d_bias = hn::Add(d_bias, d);
      }
      if (sum_weight != nullptr) store(d_weight, sum_weight + i, part);
      if (sum_norm_bias != nullptr) store(d_norm_bias, sum_norm_bias + i, part);
      if (sum_bias != nullptr) store(d_bias, sum_bias + i, part);
    });
  }

  int64_t C;
  const T *d_normed, *d_sum, *residual, *weight;
  const float *mean, *rstd;
  T *d_residual, *d_branch;
  bool wanted[3];
};

template <class T>
void backward_as(const AddNormBackward& op, const RowMask& mask, int64_t begin, int64_t end, float* partial) {
  const Backward<T> backward(op);
  const bool masked = mask.drops();
  const int64_t stride = backward.C + kMaskPadding;
  float* buffer = masked ? scratch<float, NormMultipliers>(kRowsAtOnce * stride) : nullptr;
  const float* multiplier[kRowsAtOnce] = {};
  const auto draw = [&](int64_t row, int count) {
    for (int r = 0; masked && r < count; ++r)
      multiplier[r] = row_multipliers(mask, row + r, backward.C, buffer + r * stride);
  };
  int64_t row = begin;
  for (; row + kRowsAtOnce <= end; row += kRowsAtOnce) {
    draw(row, kRowsAtOnce);
    backward.template rows<kRowsAtOnce>(row, multiplier, partial);
  }
  for (; row < end; ++row) {
    draw(row, 1);
    backward.template rows<1>(row, multiplier, partial);
  }
}

void add_norm_backward_rows(const AddNormBackward& op, const RowMask& mask, int64_t begin, int64_t end,
                            float* partial) {
  with_type_of(op.residual, [&]<class T>(T) { backward_as<T>(op, mask, begin, end, partial); });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(add_norm_rows);
HWY_EXPORT(recompute_rows);
HWY_EXPORT(add_norm_backward_rows);

constexpr int64_t kLeastRows = 16;  // minimum per thread

}  // namespace

void add_norm_forward(const AddNorm& op) {
  PARTITA_DISPATCH(op.branch, add_norm_forward(op));
  const int64_t N = check_operands(op, at::kCPU).rows;
  const RowMask mask(op.dropout, N);
  at::parallel_for(0, N, kLeastRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_norm_rows)(op, mask, begin, end);
  });
  if (op.amax.defined()) fp8_measure(op.amax, op.normed);
}

void norm_recompute(at::Tensor normed, at::Tensor residual, at::Tensor mean, at::Tensor rstd, at::Tensor weight,
                    at::Tensor norm_bias) {
  PARTITA_DISPATCH(residual, norm_recompute(normed, residual, mean, rstd, weight, norm_bias));
  const int64_t N = check_norm_recompute(normed, residual, mean, rstd, weight, norm_bias, at::kCPU).rows;
  AddNorm op;
  op.residual = residual, op.normed = normed, op.mean = mean, op.rstd = rstd;
  op.weight = weight, op.norm_bias = norm_bias;
  at::parallel_for(0, N, kLeastRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(recompute_rows)(op, begin, end);
  });
}

void add_norm_backward(const AddNormBackward& op) {
  PARTITA_DISPATCH(op.residual, add_norm_backward(op));
  const auto [N, C, dtype] = check_operands(op, at::kCPU);
  const RowMask mask(op.dropout, N);
  const ColumnSums<3> sums(N, C);
  at::parallel_for(0, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = sums.first_row(chunk), last = sums.first_row(chunk + 1);
      HWY_DYNAMIC_DISPATCH(add_norm_backward_rows)(op, mask, first, last, sums.clear(chunk));
    }
  });
  sums.add_to(0, op.d_weight);
  sums.add_to(1, op.d_norm_bias);
  sums.add_to(2, op.d_bias);
  if (op.amax.defined()) fp8_measure(op.amax, op.dropout.p > 0 ? op.d_branch : op.d_residual);
}

}  // namespace partita::internal
#endif  // HWY_ONCE
