#include "partita/ops/activation.h"

#include <ATen/Parallel.h>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/column_sums.h"
#include "partita/ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/activation.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::HWY_NAMESPACE {
namespace {

// gelu(x) = x (1 + tanh u) / 2 = x s with s = 1 / (1 + e^(-2u)) and u = kRoot (x + kCubic x^3), kRoot = sqrt(2 / pi).
constexpr float kRoot = 0.797884560802865F, kCubic = 0.044715F;

HWY_INLINE V gelu_gate(V x, V x_squared) {
  const V minus_2u = hn::Mul(x, hn::MulAdd(x_squared, constant(-2 * kRoot * kCubic), constant(-2 * kRoot)));
  // beyond 80 the gate is 0 to every bit that x s can show; the bound stands first, so that x86's Min returns a NaN of x
  const V e = exp(hn::Min(constant(80.0F), minus_2u));
  return hn::Div(constant(1.0F), hn::Add(constant(1.0F), e));
}

HWY_INLINE V gelu(V x) { return hn::Mul(x, gelu_gate(x, hn::Mul(x, x))); }

// s + x s (1 - s) 2 u'
HWY_INLINE V gelu_slope(V x) {
  const V x_squared = hn::Mul(x, x), s = gelu_gate(x, x_squared);
  const V twice_u_slope = hn::MulAdd(x_squared, constant(6 * kRoot * kCubic), constant(2 * kRoot));
  return hn::MulAdd(hn::Mul(x, hn::NegMulAdd(s, s, s)), twice_u_slope, s);
}

template <class T>
void forward_as(T* out, T* x, const T* bias, int64_t C, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for_vectors(C, [&](int64_t i, auto part) {
      T* at = x + row * C + i;
      const V biased = store(hn::Add(load(at, part), load(bias + i, part)), at, part);
      store(gelu(biased), out + row * C + i, part);
    });
}

void bias_gelu_rows(const at::Tensor& out, const at::Tensor& x, const at::Tensor& bias, int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T) {
    forward_as(out.mutable_data_ptr<T>(), x.mutable_data_ptr<T>(), bias.const_data_ptr<T>(), x.size(1), begin, end);
  };
  x.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
}

void gelu_elements(const at::Tensor& out, const at::Tensor& x, int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T) {
    T* to = out.mutable_data_ptr<T>() + begin;
    const T* from = x.const_data_ptr<T>() + begin;
    for_vectors(end - begin, [&](int64_t i, auto part) { store(gelu(load(from + i, part)), to + i, part); });
  };
  x.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
}

// kRows rows at once: the column sums stay in registers across them.
template <int kRows, class T>
HWY_INLINE void backward_rows_as(T* d_x, const T* d_out, const T* x, float* sums, int64_t C) {
  for_vectors(C, [&](int64_t i, auto part) {
    V sum = load(sums + i, part);
    for (int r = 0; r < kRows; ++r) {
      const V d = hn::Mul(load(d_out + r * C + i, part), gelu_slope(load(x + r * C + i, part)));
      sum = hn::Add(sum, store(d, d_x + r * C + i, part));
    }
    store(sum, sums + i, part);
  });
}

template <int kRows, class T>
HWY_INLINE void sum_rows_as(const T* d, float* sums, int64_t C) {
  for_vectors(C, [&](int64_t i, auto part) {
    V sum = load(sums + i, part);
    for (int r = 0; r < kRows; ++r) sum = hn::Add(sum, load(d + r * C + i, part));
    store(sum, sums + i, part);
  });
}

void bias_gelu_backward_rows(const at::Tensor& d_x, const at::Tensor& d_out, const at::Tensor& x, float* sums,
                             int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T) {
    const int64_t C = x.size(1);
    T* to = d_x.mutable_data_ptr<T>();
    const T *d = d_out.const_data_ptr<T>(), *at = x.const_data_ptr<T>();
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) backward_rows_as<4>(to + row * C, d + row * C, at + row * C, sums, C);
    for (; row < end; ++row) backward_rows_as<1>(to + row * C, d + row * C, at + row * C, sums, C);
  };
  x.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
}

void sum_rows(const at::Tensor& d, float* sums, int64_t begin, int64_t end) {
  const auto run = [&]<class T>(T) {
    const int64_t C = d.size(1);
    const T* from = d.const_data_ptr<T>();
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) sum_rows_as<4>(from + row * C, sums, C);
    for (; row < end; ++row) sum_rows_as<1>(from + row * C, sums, C);
  };
  d.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
}

}  // namespace
}  // namespace partita::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita {
namespace {

HWY_EXPORT(bias_gelu_rows);
HWY_EXPORT(gelu_elements);
HWY_EXPORT(bias_gelu_backward_rows);
HWY_EXPORT(sum_rows);

// A thread is not woken for fewer elements.
constexpr int64_t kLeastElements = 8192;

int64_t grain_rows(int64_t columns) { return std::max<int64_t>(1, kLeastElements / std::max<int64_t>(1, columns)); }

}  // namespace

void bias_gelu_forward(at::Tensor out, at::Tensor x, at::Tensor bias) {
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), C = x.size(1);
  check_tensor(x, "x", {N, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  check_tensor(bias, "bias", {C}, dtype);
  at::parallel_for(0, N, grain_rows(C), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(bias_gelu_rows)(out, x, bias, begin, end);
  });
}

void gelu_recompute(at::Tensor out, at::Tensor x) {
  const at::ScalarType dtype = check_activation(x, "x");
  check_tensor(x, "x", x.sizes(), dtype);
  check_tensor(out, "out", x.sizes(), dtype);
  at::parallel_for(0, x.numel(), kLeastElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gelu_elements)(out, x, begin, end);
  });
}

void bias_gelu_backward(at::Tensor d_x, at::Tensor d_out, at::Tensor x, Target d_bias) {
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), C = x.size(1);
  check_tensor(x, "x", {N, C}, dtype);
  check_tensor(d_out, "d_out", {N, C}, dtype);
  check_tensor(d_x, "d_x", {N, C}, dtype);
  check_optional(d_bias.gradient, "d_bias", {C}, at::kFloat);
  const ColumnSums<1> sums(N, C);
  at::parallel_for(0, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) HWY_DYNAMIC_DISPATCH(bias_gelu_backward_rows)
    (d_x, d_out, x, sums.clear(c), sums.first_row(c), sums.first_row(c + 1));
  });
  sums.add_to(0, d_bias);
}

void bias_backward(at::Tensor d, Target d_bias) {
  if (!d_bias.gradient.defined()) return;
  const at::ScalarType dtype = check_activation(d, "d");
  const int64_t N = d.size(0), C = d.size(1);
  check_tensor(d, "d", {N, C}, dtype);
  check_tensor(d_bias.gradient, "d_bias", {C}, at::kFloat);
  const ColumnSums<1> sums(N, C);
  at::parallel_for(0, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      HWY_DYNAMIC_DISPATCH(sum_rows)(d, sums.clear(c), sums.first_row(c), sums.first_row(c + 1));
  });
  sums.add_to(0, d_bias);
}

}  // namespace partita
#endif  // HWY_ONCE
