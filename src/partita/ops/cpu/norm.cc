#include "partita/ops/norm.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/column_sums.h"
#include "partita/ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/norm.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dropout-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::HWY_NAMESPACE {
namespace {

// Multipliers of up to kRowsAtOnce rows.
struct NormMultipliers;
constexpr int kRowsAtOnce = 4;

template <class T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

const float* row_multipliers(const Dropout& dropout, const Mask& mask, int64_t length, int64_t row, int64_t C,
                             float* buffer) {
  const int64_t sample = dropout.samples[static_cast<size_t>(row / length)];
  return dropout_multipliers(mask, sample, (row % length) * C, C, buffer);
}

// r = sum + multiplier * (branch + bias), rounded; each but branch may be null. Returns the lane-wise sum of r.
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

template <class T>
HWY_INLINE void normalise(T* normed, const T* r, const T* weight, const T* bias, float mean, float rstd, int64_t C) {
  for_vectors(C, [&](int64_t i, auto part) {
    const V x_hat = hn::Mul(hn::Sub(load(r + i, part), constant(mean)), constant(rstd));
    store(hn::MulAdd(x_hat, load(weight + i, part), load(bias + i, part)), normed + i, part);
  });
}

template <class T>
void forward_as(const AddNorm& op, const Mask& mask, int64_t length, int64_t begin, int64_t end) {
  const int64_t C = op.branch.size(1);
  const T *sum = data_or_null<T>(op.sum), *branch = op.branch.const_data_ptr<T>(), *bias = data_or_null<T>(op.bias);
  const T *weight = op.weight.const_data_ptr<T>(), *norm_bias = op.norm_bias.const_data_ptr<T>();
  T *residual = op.residual.mutable_data_ptr<T>(), *normed = op.normed.mutable_data_ptr<T>();
  float *means = op.mean.mutable_data_ptr<float>(), *rstds = op.rstd.mutable_data_ptr<float>();
  const bool masked = mask.threshold > 0;
  float* buffer = masked ? scratch<float, NormMultipliers>(C + kMaskPadding) : nullptr;
  for (int64_t row = begin; row < end; ++row) {
    const float* multiplier = masked ? row_multipliers(op.dropout, mask, length, row, C, buffer) : nullptr;
    T* r = residual + row * C;
    const V total = add_row(r, sum != nullptr ? sum + row * C : nullptr, branch + row * C, bias, multiplier, C);
    const float mean = sum_of_lanes(total) / static_cast<float>(C);
    const float rstd = 1 / std::sqrt(variance_of(r, mean, C) + static_cast<float>(op.epsilon));
    means[row] = mean;
    rstds[row] = rstd;
    normalise(normed + row * C, r, weight, norm_bias, mean, rstd, C);
  }
}

void add_norm_rows(const AddNorm& op, const Mask& mask, int64_t length, int64_t begin, int64_t end) {
  if (op.branch.scalar_type() == at::kFloat) return forward_as<float>(op, mask, length, begin, end);
  forward_as<at::BFloat16>(op, mask, length, begin, end);
}

template <class T>
void recompute_as(const AddNorm& op, int64_t begin, int64_t end) {
  const int64_t C = op.residual.size(1);
  const T *residual = op.residual.const_data_ptr<T>(), *weight = op.weight.const_data_ptr<T>(),
          *norm_bias = op.norm_bias.const_data_ptr<T>();
  const float *mean = op.mean.const_data_ptr<float>(), *rstd = op.rstd.const_data_ptr<float>();
  T* normed = op.normed.mutable_data_ptr<T>();
  for (int64_t row = begin; row < end; ++row)
    normalise(normed + row * C, residual + row * C, weight, norm_bias, mean[row], rstd[row], C);
}

void recompute_rows(const AddNorm& op, int64_t begin, int64_t end) {
  if (op.residual.scalar_type() == at::kFloat) return recompute_as<float>(op, begin, end);
  recompute_as<at::BFloat16>(op, begin, end);
}

template <class T>
struct Backward {
  explicit Backward(const AddNormBackward& op)
      : C(op.residual.size(1)),
        d_normed(op.d_normed.const_data_ptr<T>()),
        d_sum(data_or_null<T>(op.d_sum)),
        residual(op.residual.const_data_ptr<T>()),
        weight(op.weight.const_data_ptr<T>()),
        mean(op.mean.const_data_ptr<float>()),
        rstd(op.rstd.const_data_ptr<float>()),
        d_residual(op.d_residual.mutable_data_ptr<T>()),
        d_branch(op.dropout.p > 0 ? op.d_branch.mutable_data_ptr<T>() : nullptr) {}

  // Rows row .. row + kRows - 1 together: column sums stay in registers across them. With h = d_normed * weight:
  // d_residual = rstd * (h - mean(h) - x_hat * mean(h * x_hat)) + d_sum.
  // `partial` [3, C] gets the column sums of d_weight, d_norm_bias and d_bias.
  template <int kRows>
  HWY_INLINE void rows(int64_t row, const float* const* multiplier, float* partial) const {
    float *sum_weight = partial, *sum_norm_bias = partial + C, *sum_bias = partial + 2 * C;
    float mean_h[kRows], mean_hx[kRows];
    for (int r = 0; r < kRows; ++r) {
      V sum_h = hn::Zero(D()), sum_hx = hn::Zero(D());
      const int64_t at = (row + r) * C;
      const V vector_mean = constant(mean[row + r]);
      for_vectors(C, [&](int64_t i, auto part) {
        const V h = hn::Mul(load(d_normed + at + i, part), load(weight + i, part));
        sum_h = hn::Add(sum_h, h);
        sum_hx = hn::MulAdd(h, hn::Sub(load(residual + at + i, part), vector_mean), sum_hx);
      });
      mean_h[r] = sum_of_lanes(sum_h) / static_cast<float>(C);
      mean_hx[r] = sum_of_lanes(sum_hx) * rstd[row + r] / static_cast<float>(C);
    }
    for_vectors(C, [&](int64_t i, auto part) {
      const V w = load(weight + i, part);
      V d_weight = load(sum_weight + i, part), d_norm_bias = load(sum_norm_bias + i, part);
      V d_bias = load(sum_bias + i, part);
      for (int r = 0; r < kRows; ++r) {
        const int64_t at = (row + r) * C + i;
        const V dy = load(d_normed + at, part), scale = constant(rstd[row + r]);
        const V x_hat = hn::Mul(hn::Sub(load(residual + at, part), constant(mean[row + r])), scale);
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
      store(d_weight, sum_weight + i, part);
      store(d_norm_bias, sum_norm_bias + i, part);
      store(d_bias, sum_bias + i, part);
    });
  }

  int64_t C;
  const T *d_normed, *d_sum, *residual, *weight;
  const float *mean, *rstd;
  T *d_residual, *d_branch;
};

template <class T>
void backward_as(const AddNormBackward& op, const Mask& mask, int64_t length, int64_t begin, int64_t end,
                 float* partial) {
  const Backward<T> backward(op);
  const bool masked = mask.threshold > 0;
  const int64_t stride = backward.C + kMaskPadding;
  float* buffer = masked ? scratch<float, NormMultipliers>(kRowsAtOnce * stride) : nullptr;
  const float* multiplier[kRowsAtOnce] = {};
  const auto draw = [&](int64_t row, int count) {
    for (int r = 0; masked && r < count; ++r)
      multiplier[r] = row_multipliers(op.dropout, mask, length, row + r, backward.C, buffer + r * stride);
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

void add_norm_backward_rows(const AddNormBackward& op, const Mask& mask, int64_t length, int64_t begin, int64_t end,
                            float* partial) {
  if (op.residual.scalar_type() == at::kFloat) return backward_as<float>(op, mask, length, begin, end, partial);
  backward_as<at::BFloat16>(op, mask, length, begin, end, partial);
}

}  // namespace
}  // namespace partita::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita {
namespace {

HWY_EXPORT(add_norm_rows);
HWY_EXPORT(recompute_rows);
HWY_EXPORT(add_norm_backward_rows);

constexpr int64_t kLeastRows = 16;  // a thread is not woken for fewer

// Rows a sample; 1 where the samples are not known and not needed.
int64_t length_of(const Dropout& dropout, int64_t rows) {
  if (dropout.p == 0 || rows == 0) return 1;
  const auto samples = static_cast<int64_t>(dropout.samples.size());
  PARTITA_CHECK(samples > 0 && rows % samples == 0, "{} rows are not whole samples: {} ids", rows, samples);
  return rows / samples;
}

}  // namespace

void add_norm_forward(const AddNorm& op) {
  const at::ScalarType dtype = check_activation(op.branch, "branch");
  const int64_t N = op.branch.size(0), C = op.branch.size(1);
  check_tensor(op.branch, "branch", {N, C}, dtype);
  check_optional(op.sum, "sum", {N, C}, dtype);
  check_optional(op.bias, "bias", {C}, dtype);
  check_tensor(op.weight, "weight", {C}, dtype);
  check_tensor(op.norm_bias, "norm_bias", {C}, dtype);
  check_tensor(op.residual, "residual", {N, C}, dtype);
  check_tensor(op.normed, "normed", {N, C}, dtype);
  check_tensor(op.mean, "mean", {N}, at::kFloat);
  check_tensor(op.rstd, "rstd", {N}, at::kFloat);
  const int64_t length = length_of(op.dropout, N);
  const Mask mask = make_mask(op.dropout, N / length);
  at::parallel_for(0, N, kLeastRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_norm_rows)(op, mask, length, begin, end);
  });
}

void norm_recompute(at::Tensor normed, at::Tensor residual, at::Tensor mean, at::Tensor rstd, at::Tensor weight,
                    at::Tensor norm_bias) {
  const at::ScalarType dtype = check_activation(residual, "residual");
  const int64_t N = residual.size(0), C = residual.size(1);
  check_tensor(residual, "residual", {N, C}, dtype);
  check_tensor(normed, "normed", {N, C}, dtype);
  check_tensor(mean, "mean", {N}, at::kFloat);
  check_tensor(rstd, "rstd", {N}, at::kFloat);
  check_tensor(weight, "weight", {C}, dtype);
  check_tensor(norm_bias, "norm_bias", {C}, dtype);
  AddNorm op;
  op.residual = residual, op.normed = normed, op.mean = mean, op.rstd = rstd;
  op.weight = weight, op.norm_bias = norm_bias;
  at::parallel_for(0, N, kLeastRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(recompute_rows)(op, begin, end);
  });
}

void add_norm_backward(const AddNormBackward& op) {
  const at::ScalarType dtype = check_activation(op.residual, "residual");
  const int64_t N = op.residual.size(0), C = op.residual.size(1);
  check_tensor(op.residual, "residual", {N, C}, dtype);
  check_tensor(op.d_normed, "d_normed", {N, C}, dtype);
  check_optional(op.d_sum, "d_sum", {N, C}, dtype);
  check_tensor(op.weight, "weight", {C}, dtype);
  check_tensor(op.mean, "mean", {N}, at::kFloat);
  check_tensor(op.rstd, "rstd", {N}, at::kFloat);
  check_tensor(op.d_residual, "d_residual", {N, C}, dtype);
  if (op.dropout.p > 0) check_tensor(op.d_branch, "d_branch", {N, C}, dtype);
  for (const Target* target : {&op.d_weight, &op.d_norm_bias, &op.d_bias})
    check_optional(target->gradient, "vector gradient", {C}, at::kFloat);
  const int64_t length = length_of(op.dropout, N);
  const Mask mask = make_mask(op.dropout, N / length);
  const ColumnSums<3> sums(N, C);
  at::parallel_for(0, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = sums.first_row(chunk), last = sums.first_row(chunk + 1);
      HWY_DYNAMIC_DISPATCH(add_norm_backward_rows)(op, mask, length, first, last, sums.clear(chunk));
    }
  });
  sums.add_to(0, op.d_weight);
  sums.add_to(1, op.d_norm_bias);
  sums.add_to(2, op.d_bias);
}

}  // namespace partita
#endif  // HWY_ONCE
