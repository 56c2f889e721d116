#include "partita/ops/activation.h"

#include <ATen/Parallel.h>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/column_sums.h"
#include "partita/ops/cpu/targets.h"
#include "partita/ops/operand_checks.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/activation.h"
#endif
#include "partita/ops/device.h"
#include "partita/ops/fp8.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/activation.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// gelu(x) = x (1 + tanh u) / 2 = x s with s = 1 / (1 + e^(-2u)) and u = kRoot (x + kCubic x^3), kRoot = sqrt(2 / pi).
constexpr float kRoot = 0.797884560802865F, kCubic = 0.044715F;

HWY_INLINE V gelu_gate(V x, V x_squared) {
  const V minus_2u = hn::Mul(x, hn::MulAdd(x_squared, constant(-2 * kRoot * kCubic), constant(-2 * kRoot)));
  // beyond 80 the gate is 0 in every bit that affects x s; the bound comes first since x86's Min returns its second
  // operand on NaN
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
  with_type_of(x, [&]<class T>(T) {
    forward_as(out.mutable_data_ptr<T>(), x.mutable_data_ptr<T>(), bias.const_data_ptr<T>(), x.size(1), begin, end);
  });
}

void gelu_elements(const at::Tensor& out, const at::Tensor& x, int64_t begin, int64_t end) {
  with_type_of(x, [&]<class T>(T) {
    T* to = out.mutable_data_ptr<T>() + begin;
    const T* from = x.const_data_ptr<T>() + begin;
    for_vectors(end - begin, [&](int64_t i, auto part) { store(gelu(load(from + i, part)), to + i, part); });
  });
}

// kRows rows at a time: column sums stay in registers. sums: may be null.
template <int kRows, class T>
HWY_INLINE void backward_rows_as(T* d_x, const T* d_out, const T* x, float* sums, int64_t C) {
  for_vectors(C, [&](int64_t i, auto part) {
    V sum = sums != nullptr ? load(sums + i, part) : hn::Zero(D());
    for (int r = 0; r < kRows; ++r) {
      const V d = hn::Mul(load(d_out + r * C + i, part), gelu_slope(load(x + r * C + i, part)));
      sum = hn::Add(sum, store(d, d_x + r * C + i, part));
    }
    if (sums != nullptr) store(sum, sums + i, part);
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
  with_type_of(x, [&]<class T>(T) {
    const int64_t C = x.size(1);
    T* to = d_x.mutable_data_ptr<T>();
    const T *d = d_out.const_data_ptr<T>(), *at = x.const_data_ptr<T>();
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) backward_rows_as<4>(to + row * C, d + row * C, at + row * C, sums, C);
    for (; row < end; ++row) backward_rows_as<1>(to + row * C, d + row * C, at + row * C, sums, C);
  });
}

void sum_rows(const at::Tensor& d, float* sums, int64_t begin, int64_t end) {
  with_type_of(d, [&]<class T>(T) {
    const int64_t C = d.size(1);
    const T* from = d.const_data_ptr<T>();
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) sum_rows_as<4>(from + row * C, sums, C);
    for (; row < end; ++row) sum_rows_as<1>(from + row * C, sums, C);
  });
}

// sigmoid(x) from exp(-|x|), which cannot overflow: 1 / (1 + e) or e / (1 + e).
HWY_INLINE V sigmoid(V x) {
  const V e = exp(hn::Neg(hn::Abs(x))), one = constant(1.0F);
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(D())), e, one), hn::Add(one, e));
}

template <class T>
void swiglu_forward_as(T* out, const T* gate_up, int64_t F, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T *gates = gate_up + row * 2 * F, *ups = gates + F;
    for_vectors(F, [&](int64_t i, auto part) {
      const V gate = load(gates + i, part);
      store(hn::Mul(hn::Mul(gate, sigmoid(gate)), load(ups + i, part)), out + row * F + i, part);
    });
  }
}

void swiglu_rows(const at::Tensor& out, const at::Tensor& gate_up, int64_t begin, int64_t end) {
  with_type_of(out, [&]<class T>(T) {
    swiglu_forward_as(out.mutable_data_ptr<T>(), gate_up.const_data_ptr<T>(), out.size(1), begin, end);
  });
}

// With s = sigmoid(gate): d_up = d_out gate s, d_gate = d_out up (s + gate s (1 - s)).
template <class T>
void swiglu_backward_as(T* d_gate_up, const T* d_out, const T* gate_up, int64_t F, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T *gates = gate_up + row * 2 * F, *ups = gates + F;
    T *d_gates = d_gate_up + row * 2 * F, *d_ups = d_gates + F;
    for_vectors(F, [&](int64_t i, auto part) {
      const V gate = load(gates + i, part), up = load(ups + i, part), d = load(d_out + row * F + i, part);
      const V s = sigmoid(gate), silu = hn::Mul(gate, s);
      store(hn::Mul(hn::Mul(d, up), hn::MulAdd(silu, hn::Sub(constant(1.0F), s), s)), d_gates + i, part);
      store(hn::Mul(d, silu), d_ups + i, part);
    });
  }
}

void swiglu_backward_rows(const at::Tensor& d_gate_up, const at::Tensor& d_out, const at::Tensor& gate_up,
                          int64_t begin, int64_t end) {
  with_type_of(d_out, [&]<class T>(T) {
    swiglu_backward_as(d_gate_up.mutable_data_ptr<T>(), d_out.const_data_ptr<T>(), gate_up.const_data_ptr<T>(),
                       d_out.size(1), begin, end);
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(bias_gelu_rows);
HWY_EXPORT(gelu_elements);
HWY_EXPORT(bias_gelu_backward_rows);
HWY_EXPORT(sum_rows);
HWY_EXPORT(swiglu_rows);
HWY_EXPORT(swiglu_backward_rows);

// Minimum number of elements per thread.
constexpr int64_t kLeastElements = 8192;

int64_t grain_rows(int64_t columns) { return std::max<int64_t>(1, kLeastElements / std::max<int64_t>(1, columns)); }

}  // namespace

void bias_gelu_forward(at::Tensor out, at::Tensor x, at::Tensor bias, at::Tensor amax) {
  PARTITA_DISPATCH(x, bias_gelu_forward(out, x, bias, amax));
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), C = x.size(1);
  check_tensor(x, "x", {N, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  check_tensor(bias, "bias", {C}, dtype);
  at::parallel_for(0, N, grain_rows(C), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(bias_gelu_rows)(out, x, bias, begin, end);
  });
  if (amax.defined()) fp8_measure(amax, out);
}

void gelu_recompute(at::Tensor out, at::Tensor x) {
  PARTITA_DISPATCH(x, gelu_recompute(out, x));
  const at::ScalarType dtype = check_activation(x, "x");
  check_tensor(x, "x", x.sizes(), dtype);
  check_tensor(out, "out", x.sizes(), dtype);
  at::parallel_for(0, x.numel(), kLeastElements, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gelu_elements)(out, x, begin, end);
  });
}

void bias_gelu_backward(at::Tensor d_x, at::Tensor d_out, at::Tensor x, Target d_bias, at::Tensor amax) {
  PARTITA_DISPATCH(x, bias_gelu_backward(d_x, d_out, x, d_bias, amax));
  const RowsOperand size = check_bias_gelu_backward(d_x, d_out, x, d_bias, amax, at::kCPU);
  const ColumnSums<1> sums(size.rows, size.columns);
  const bool wanted = d_bias.gradient.defined();
  at::parallel_for(0, sums.chunks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) HWY_DYNAMIC_DISPATCH(bias_gelu_backward_rows)
    (d_x, d_out, x, wanted ? sums.clear(c) : nullptr, sums.first_row(c), sums.first_row(c + 1));
  });
  sums.add_to(0, d_bias);
  if (amax.defined()) fp8_measure(amax, d_x);
}

void swiglu_forward(at::Tensor out, at::Tensor gate_up, at::Tensor amax) {
  PARTITA_DISPATCH(gate_up, swiglu_forward(out, gate_up, amax));
  const at::ScalarType dtype = check_activation(gate_up, "gate_up");
  const int64_t N = gate_up.size(0), F = gate_up.size(1) / 2;
  check_tensor(gate_up, "gate_up", {N, 2 * F}, dtype);
  check_tensor(out, "out", {N, F}, dtype);
  at::parallel_for(0, N, grain_rows(F), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(swiglu_rows)(out, gate_up, begin, end);
  });
  if (amax.defined()) fp8_measure(amax, out);
}

void swiglu_backward(at::Tensor d_gate_up, at::Tensor d_out, at::Tensor gate_up, at::Tensor amax) {
  PARTITA_DISPATCH(gate_up, swiglu_backward(d_gate_up, d_out, gate_up, amax));
  const at::ScalarType dtype = check_activation(gate_up, "gate_up");
  const int64_t N = gate_up.size(0), F = gate_up.size(1) / 2;
  check_tensor(gate_up, "gate_up", {N, 2 * F}, dtype);
  check_tensor(d_out, "d_out", {N, F}, dtype);
  check_tensor(d_gate_up, "d_gate_up", {N, 2 * F}, dtype);
  at::parallel_for(0, N, grain_rows(F), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(swiglu_backward_rows)(d_gate_up, d_out, gate_up, begin, end);
  });
  if (amax.defined()) fp8_measure(amax, d_gate_up);
}

void bias_backward(at::Tensor d, Target d_bias) {
  PARTITA_DISPATCH(d, bias_backward(d, d_bias));
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

}  // namespace partita::internal
#endif  // HWY_ONCE
