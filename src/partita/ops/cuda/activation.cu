#include "partita/ops/cuda/activation.h"

#include "partita/ops/cuda/amax.cuh"
#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/gelu.cuh"
#include "partita/ops/cuda/launch.h"

namespace partita::internal::cuda {
namespace {

// The eight elements of a thread: packs never cross the end of a row.
struct Place {
  __device__ __forceinline__ Place(int64_t rows, int64_t columns) {
    const auto packs = static_cast<uint32_t>((columns + 7) / 8);
    const int64_t pack = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    row = pack <= UINT32_MAX ? static_cast<uint32_t>(pack) / packs : pack / packs;
    column = 8 * (pack - row * packs);
    count = row < rows ? columns - column : 0;
  }
  int64_t row, column, count;  // count 0: none
};

// bias null: x already includes it. Packs past the end of a row hold 0, whose GELU is 0.
template <bool kAligned, class T>
__device__ __forceinline__ uint32_t gelu_pack(T* out, T* x, const T* bias, const Place& place, int64_t C) {
  const int64_t at = place.row * C + place.column;
  float value[8];
  widen(load<kAligned, 8>(x + at, place.count), value);
  if (bias != nullptr) {
    float b[8];
    widen(load<kAligned, 8>(bias + place.column, place.count), b);
#pragma unroll
    for (int i = 0; i < 8; ++i) value[i] += b[i];
    store_rounded<kAligned>(x + at, value, place.count);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) value[i] = gelu(value[i]);
  const auto pack = narrow<T>(value);
  store<kAligned>(out + at, pack, place.count);
  return larger(0, pack);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    gelu_kernel(T* out, T* x, const T* bias, int64_t rows, int64_t C, float* amax) {
  const Place place(rows, C);
  if (amax == nullptr && place.count <= 0) return;
  uint32_t largest = 0;
  if (place.count > 0) largest = gelu_pack<kAligned>(out, x, bias, place, C);
  if (amax != nullptr) record_amax(amax, largest);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(T* out, const T* gate_up, int64_t rows, int64_t F, float* amax) {
  const Place place(rows, F);
  uint32_t largest = 0;
  if (place.count > 0) {
    const T* gates = gate_up + 2 * place.row * F + place.column;
    float gate[8], up[8];
    widen(load<kAligned, 8>(gates, place.count), gate);
    widen(load<kAligned, 8>(gates + F, place.count), up);
#pragma unroll
    for (int i = 0; i < 8; ++i) up[i] *= gate[i] * sigmoid(gate[i]);
    const auto pack = narrow<T>(up);
    store<kAligned>(out + place.row * F + place.column, pack, place.count);
    largest = larger(0, pack);
  }
  if (amax != nullptr) record_amax(amax, largest);
}

// With s = sigmoid(gate): d_up = d_out gate s, d_gate = d_out up (s + gate s (1 - s)).
template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(T* d_gate_up, const T* d_out, const T* gate_up, int64_t rows, int64_t F, float* amax) {
  const Place place(rows, F);
  uint32_t largest = 0;
  if (place.count > 0) {
    const int64_t at = 2 * place.row * F + place.column;
    float gate[8], up[8], d[8];
    widen(load<kAligned, 8>(gate_up + at, place.count), gate);
    widen(load<kAligned, 8>(gate_up + at + F, place.count), up);
    widen(load<kAligned, 8>(d_out + place.row * F + place.column, place.count), d);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float s = sigmoid(gate[i]), silu = gate[i] * s;
      gate[i] = d[i] * up[i] * fmaf(silu, 1 - s, s);
      up[i] = d[i] * silu;
    }
    const auto d_gate = narrow<T>(gate), d_up = narrow<T>(up);
    store<kAligned>(d_gate_up + at, d_gate, place.count);
    store<kAligned>(d_gate_up + at + F, d_up, place.count);
    largest = larger(larger(0, d_gate), d_up);
  }
  if (amax != nullptr) record_amax(amax, largest);
}

// Blocks for `rows` x packs of `columns`.
unsigned blocks_of(int64_t rows, int64_t columns) { return blocks_for(rows * divide_up(columns, 8)); }

void launch_gelu(const at::Tensor& out, const at::Tensor& x, const at::Tensor& bias, const at::Tensor& amax,
                 int64_t rows, int64_t C) {
  check_optional(amax, "amax", {1}, at::kFloat);
  if (rows * C == 0) return;
  with_type(x.scalar_type(), [&]<class T>(T) {
    with_bool(C % 8 == 0 && aligned(out, x, bias), [&]<class Aligned>(Aligned) {
      gelu_kernel<T, Aligned::value><<<blocks_of(rows, C), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
          out.mutable_data_ptr<T>(), x.mutable_data_ptr<T>(), data_or_null<T>(bias), rows, C,
          mutable_data_or_null<float>(amax));
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace

void bias_gelu_forward(at::Tensor out, at::Tensor x, at::Tensor bias, at::Tensor amax) {
  const at::ScalarType dtype = check_activation(x, "x");
  const int64_t N = x.size(0), C = x.size(1);
  check_tensor(x, "x", {N, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  check_tensor(bias, "bias", {C}, dtype);
  launch_gelu(out, x, bias, amax, N, C);
}

void gelu_recompute(at::Tensor out, at::Tensor x) {
  const at::ScalarType dtype = check_activation(x, "x");
  check_tensor(x, "x", x.sizes(), dtype);
  check_tensor(out, "out", x.sizes(), dtype);
  const int64_t C = x.dim() > 0 ? x.size(-1) : 1;
  launch_gelu(out, x, {}, {}, C > 0 ? x.numel() / C : 0, C);
}

void swiglu_forward(at::Tensor out, at::Tensor gate_up, at::Tensor amax) {
  const at::ScalarType dtype = check_activation(gate_up, "gate_up");
  const int64_t N = gate_up.size(0), F = gate_up.size(1) / 2;
  check_tensor(gate_up, "gate_up", {N, 2 * F}, dtype);
  check_tensor(out, "out", {N, F}, dtype);
  check_optional(amax, "amax", {1}, at::kFloat);
  if (N * F == 0) return;
  with_type(dtype, [&]<class T>(T) {
    with_bool(F % 8 == 0 && aligned(out, gate_up), [&]<class Aligned>(Aligned) {
      swiglu_kernel<T, Aligned::value><<<blocks_of(N, F), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
          out.mutable_data_ptr<T>(), gate_up.const_data_ptr<T>(), N, F, mutable_data_or_null<float>(amax));
    });
  });
  PARTITA_LAUNCHED();
}

void swiglu_backward(at::Tensor d_gate_up, at::Tensor d_out, at::Tensor gate_up, at::Tensor amax) {
  const at::ScalarType dtype = check_activation(gate_up, "gate_up");
  const int64_t N = gate_up.size(0), F = gate_up.size(1) / 2;
  check_tensor(gate_up, "gate_up", {N, 2 * F}, dtype);
  check_tensor(d_out, "d_out", {N, F}, dtype);
  check_tensor(d_gate_up, "d_gate_up", {N, 2 * F}, dtype);
  check_optional(amax, "amax", {1}, at::kFloat);
  if (N * F == 0) return;
  with_type(dtype, [&]<class T>(T) {
    with_bool(F % 8 == 0 && aligned(d_gate_up, d_out, gate_up), [&]<class Aligned>(Aligned) {
      swiglu_backward_kernel<T, Aligned::value><<<blocks_of(N, F), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
          d_gate_up.mutable_data_ptr<T>(), d_out.const_data_ptr<T>(), gate_up.const_data_ptr<T>(), N, F,
          mutable_data_or_null<float>(amax));
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace partita::internal::cuda
