// fp8 on the CPU: rounded exactly as on a GPU, and multiplied as the equivalent fp32 values, so that the effect of fp8
// on a run can be seen and tested without a GPU. Not optimized.
#include "partita/ops/fp8.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "partita/ops/cpu/check.h"
#include "partita/ops/matmul.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/fp8.h"
#endif
#include "partita/ops/device.h"

namespace partita::internal {
namespace {

constexpr uint32_t kMagnitude = 0x7FFFFFFFU;

bool is_fp8(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat8_e4m3fn || t.scalar_type() == at::kFloat8_e5m2;
}

// Saturates to the largest finite value; NaN is written without a sign, as on a GPU.
template <class Byte>
uint8_t rounded(float x, float highest) {
  return std::isnan(x) ? 0x7F : Byte(std::clamp(x, -highest, highest)).x;
}

at::Tensor widened(const Fp8& f) { return f.values.to(at::kFloat).mul_(f.scale.const_data_ptr<float>()[kFp8Inverse]); }

void check_factor(const Fp8& f, const char* name, int64_t k) {
  PARTITA_CHECK(f.values.defined() && f.values.dim() == 2 && is_fp8(f.values), "{} must be a matrix of 8-bit values",
                name);
  check_tensor(f.values, name, {f.values.size(0), k}, f.values.scalar_type());
  check_tensor(f.scale, "scale", {kFp8Scale}, at::kFloat);
}

}  // namespace

bool fp8_fits(int64_t rows, int64_t in, int64_t out) {
  return rows % kFp8Quantum == 0 && in % kFp8Quantum == 0 && out % kFp8Quantum == 0;
}

float fp8_scale(float amax, at::ScalarType format) {
  if (!std::isfinite(amax)) return std::numeric_limits<float>::quiet_NaN();
  if (amax == 0) return 1;
  const int highest = format == at::kFloat8_e4m3fn ? 8 : 15;  // the largest value is 1.75 * 2^highest
  int exponent = 0;
  const float mantissa = 2 * std::frexp(amax, &exponent);  // in [1, 2), times 2^(exponent - 1)
  return std::ldexp(1.0F, std::min(highest - (exponent - 1) - (mantissa > 1.75F ? 1 : 0), 126));
}

void check_fp8_device(at::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda()) return cuda::check_fp8_device(device);
#else
  static_cast<void>(device);
#endif
}

void fp8_measure(at::Tensor amax, at::Tensor x) {
  PARTITA_DISPATCH(x, fp8_measure(amax, x));
  check_tensor(x, "x", x.sizes(), check_activation(x, "x"));
  check_tensor(amax, "amax", {1}, at::kFloat);
  const at::Tensor wide = x.to(at::kFloat);
  const float* data = wide.const_data_ptr<float>();
  // Magnitudes sort like their bits, with infinity and NaN on top.
  auto largest = std::bit_cast<uint32_t>(*amax.const_data_ptr<float>());
  for (int64_t i = 0; i < wide.numel(); ++i) largest = std::max(largest, std::bit_cast<uint32_t>(data[i]) & kMagnitude);
  *amax.mutable_data_ptr<float>() = std::bit_cast<float>(largest);
}

void fp8_quantize(at::Tensor rows, at::Tensor columns, at::Tensor scale, at::Tensor x, bool measure) {
  PARTITA_CHECK(x.defined() && x.dim() == 2 && x.element_size() == 2 && x.is_floating_point(),
                "x must be a matrix of bf16 or fp16");
  PARTITA_CHECK(rows.defined() || columns.defined(), "rows or columns must be there");
  const at::Tensor& some = rows.defined() ? rows : columns;
  PARTITA_CHECK(is_fp8(some), "dtype {}, expected Float8_e4m3fn or Float8_e5m2", at::toString(some.scalar_type()));
  const int64_t R = x.size(0), C = x.size(1);
  PARTITA_CHECK(R % kFp8Quantum == 0 && C % kFp8Quantum == 0 && R > 0 && C > 0,
                "x is [{}, {}]: expected multiples of {}", R, C, kFp8Quantum);
  PARTITA_DISPATCH(x, fp8_quantize(rows, columns, scale, x, measure));
  const at::ScalarType format = some.scalar_type();
  check_tensor(x, "x", {R, C}, x.scalar_type());
  check_optional(rows, "rows", {R, C}, format);
  check_optional(columns, "columns", {C, R}, format);
  check_tensor(scale, "scale", {kFp8Scale}, at::kFloat);
  if (measure) fp8_measure(scale.narrow(0, kFp8Measured, 1), x);
  float* numbers = scale.mutable_data_ptr<float>();
  const float factor = fp8_scale(numbers[0], format);
  numbers[kFp8Inverse] = 1 / factor;
  const at::Tensor wide = x.to(at::kFloat);
  const float* in = wide.const_data_ptr<float>();
  auto* by_row = rows.defined() ? static_cast<uint8_t*>(rows.mutable_data_ptr()) : nullptr;
  auto* by_column = columns.defined() ? static_cast<uint8_t*>(columns.mutable_data_ptr()) : nullptr;
  at::parallel_for(0, R, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < C; ++c) {
        const float value = in[r * C + c] * factor;
        const uint8_t byte = format == at::kFloat8_e4m3fn ? rounded<c10::Float8_e4m3fn>(value, 448)
                                                          : rounded<c10::Float8_e5m2>(value, 57344);
        if (by_row != nullptr) by_row[r * C + c] = byte;
        if (by_column != nullptr) by_column[c * R + r] = byte;
      }
  });
}

void fp8_matmul(at::Tensor out, const Fp8& a, const Fp8& b, bool accumulate, at::Tensor bias) {
  PARTITA_CHECK(a.values.defined() && a.values.dim() == 2 && b.values.defined() && b.values.dim() == 2,
                "a and b must be matrices");
  const int64_t m = a.values.size(0), k = a.values.size(1), n = b.values.size(0);
  PARTITA_CHECK(m > 0 && k > 0 && n > 0 && fp8_fits(m, k, n),
                "a product of [{}, {}] and [{}, {}]: expected multiples of {}", m, k, n, b.values.size(1), kFp8Quantum);
  PARTITA_CHECK(is_fp8(a.values) && is_fp8(b.values), "a and b must be of 8-bit values");
  PARTITA_CHECK(a.values.scalar_type() == at::kFloat8_e4m3fn || b.values.scalar_type() == at::kFloat8_e4m3fn,
                "a and b are both E5M2: one must be E4M3");
  PARTITA_CHECK(!accumulate || !bias.defined(), "a bias beside a sum");
  PARTITA_DISPATCH(a.values, fp8_matmul(out, a, b, accumulate, bias));
  check_factor(a, "a", k);
  check_factor(b, "b", k);
  check_tensor(out, "out", {m, n}, check_activation(out, "out"));
  check_optional(bias, "bias", {n}, out.scalar_type());
  const at::Tensor product = at::empty({m, n}, at::TensorOptions(at::kFloat));
  linear_forward(product, widened(a), widened(b), bias.defined() ? bias.to(at::kFloat) : at::Tensor());
  if (accumulate) product.add_(out);
  out.copy_(product);
}

}  // namespace partita::internal
