#include "partita/ops/fp8.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/ops/activation.h"
#include "tests/ops/reference.h"

namespace partita::internal {
namespace {

using reference::random;

constexpr at::ScalarType kFormats[] = {at::kFloat8_e4m3fn, at::kFloat8_e5m2};

// The value of a byte by the definition of the formats.
double value_of(uint8_t byte, at::ScalarType format) {
  const int mantissa_bits = format == at::kFloat8_e4m3fn ? 3 : 2, bias = format == at::kFloat8_e4m3fn ? 7 : 15;
  const int exponent = (byte & 0x7F) >> mantissa_bits, mantissa = byte & ((1 << mantissa_bits) - 1);
  const double unit = std::ldexp(1.0, -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa * unit, 1 - bias) : std::ldexp(1 + mantissa * unit, exponent - bias);
  return byte >= 0x80 ? -magnitude : magnitude;
}
uint8_t last_of(at::ScalarType format) { return format == at::kFloat8_e4m3fn ? 0x7E : 0x7B; }

// The nearest finite byte, the even one of two; the last one out of range.
uint8_t nearest(double x, at::ScalarType format) {
  uint8_t best = 0;
  x = std::clamp(x, -value_of(last_of(format), format), value_of(last_of(format), format));
  for (int byte = 1; byte <= last_of(format); ++byte) {
    const double now = std::abs(std::abs(x) - value_of(static_cast<uint8_t>(byte), format)),
                 before = std::abs(std::abs(x) - value_of(best, format));
    if (now < before || (now == before && byte % 2 == 0)) best = static_cast<uint8_t>(byte);
  }
  return static_cast<uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

at::Tensor scale_with(float amax) {
  at::Tensor scale = at::zeros({kFp8Scale}, at::TensorOptions(at::kFloat));
  scale.mutable_data_ptr<float>()[0] = amax;
  return scale;
}
at::Tensor empty8(at::IntArrayRef shape, at::ScalarType format) {
  return at::empty(shape, at::TensorOptions(at::kByte)).view(format);
}
uint8_t byte(const at::Tensor& t, int64_t i) { return static_cast<const uint8_t*>(t.const_data_ptr())[i]; }

TEST(Fp8, SizesOfMultiplesOf16) {
  EXPECT_TRUE(fp8_fits(16, 2048, 5632));
  EXPECT_FALSE(fp8_fits(8, 2048, 5632));
  EXPECT_FALSE(fp8_fits(16, 2040, 5632));
  EXPECT_FALSE(fp8_fits(16, 2048, 5640));
}

TEST(Fp8, ScaleIsTheLargestPowerOfTwoThatFits) {
  for (at::ScalarType format : kFormats) {
    const double last = value_of(last_of(format), format);
    EXPECT_EQ(last, format == at::kFloat8_e4m3fn ? 448 : 57344);
    for (int exponent = -100; exponent < 120; ++exponent)
      for (float mantissa : {1.0F, 1.5F, 1.75F, 1.7578125F, 1.9921875F}) {
        const float amax = std::ldexp(mantissa, exponent), scale = fp8_scale(amax, format);
        int power = 0;
        EXPECT_EQ(std::frexp(scale, &power), 0.5F);
        EXPECT_LE(double{amax} * scale, last);
        EXPECT_GT(double{amax} * scale * 2, last);
      }
    EXPECT_EQ(fp8_scale(0, format), 1);
    EXPECT_EQ(fp8_scale(std::numeric_limits<float>::denorm_min(), format), std::ldexp(1.0F, 126));
    EXPECT_TRUE(std::isnan(fp8_scale(std::numeric_limits<float>::infinity(), format)));
    EXPECT_TRUE(std::isnan(fp8_scale(std::numeric_limits<float>::quiet_NaN(), format)));
  }
}

TEST(Fp8, EveryBf16ValueIsRoundedToTheNearest) {
  const at::Tensor x = at::empty({256, 256}, at::TensorOptions(at::kBFloat16));
  for (int i = 0; i < 65536; ++i) static_cast<uint16_t*>(x.mutable_data_ptr())[i] = static_cast<uint16_t>(i);
  const at::Tensor wide = x.to(at::kFloat);
  for (at::ScalarType format : kFormats)
    for (float amax : {448.0F, 0.37F, 60000.0F}) {
      const at::Tensor rows = empty8({256, 256}, format), columns = empty8({256, 256}, format);
      at::Tensor scale = scale_with(amax);
      fp8_quantize(rows, columns, scale, x);
      const float factor = fp8_scale(amax, format);
      EXPECT_EQ(scale.const_data_ptr<float>()[kFp8Inverse], 1 / factor);
      for (int i = 0; i < 65536; ++i) {
        const float value = wide.const_data_ptr<float>()[i];
        const uint8_t expected = std::isnan(value) ? 0x7F : nearest(double{value} * factor, format);
        ASSERT_EQ(byte(rows, i), expected) << value;
        ASSERT_EQ(byte(columns, i % 256 * 256 + i / 256), expected) << value;
      }
    }
}

TEST(Fp8, InfinityAndNaNAreMeasuredAndSpread) {
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor x = random({16, 32}, at::kBFloat16, 1), scale = scale_with(0);
    x.mutable_data_ptr<at::BFloat16>()[77] = bad;
    fp8_measure(scale.narrow(0, 0, 1), x);
    EXPECT_FALSE(std::isfinite(scale.const_data_ptr<float>()[0]));
    const at::Tensor rows = empty8({16, 32}, at::kFloat8_e5m2);
    fp8_quantize(rows, {}, scale, x);
    for (int64_t i = 0; i < x.numel(); ++i) EXPECT_EQ(byte(rows, i), 0x7F);
    EXPECT_TRUE(std::isnan(scale.const_data_ptr<float>()[kFp8Inverse]));
  }
}

TEST(Fp8, QuantizeMeasuresInPassing) {
  at::Tensor x = random({32, 48}, at::kBFloat16, 4), scale = scale_with(0.5F);
  x.mutable_data_ptr<at::BFloat16>()[1000] = -9.0F;  // 18 times what was expected: the last value in range
  const at::Tensor rows = empty8({32, 48}, at::kFloat8_e4m3fn);
  fp8_quantize(rows, {}, scale, x);
  EXPECT_EQ(scale.const_data_ptr<float>()[kFp8Measured], 0);
  fp8_quantize(rows, {}, scale, x, true);
  EXPECT_EQ(scale.const_data_ptr<float>()[kFp8Measured], 9);
  EXPECT_EQ(scale.const_data_ptr<float>()[0], 0.5F);
  EXPECT_EQ(byte(rows, 1000), 0x80 | last_of(at::kFloat8_e4m3fn));
  fp8_quantize({}, empty8({48, 32}, at::kFloat8_e4m3fn), scale, random({32, 48}, at::kBFloat16, 5), true);
  EXPECT_EQ(scale.const_data_ptr<float>()[kFp8Measured], 9);
}

TEST(Fp8, MeasureTakesTheLargestOfAllCalls) {
  at::Tensor amax = at::zeros({1}, at::TensorOptions(at::kFloat));
  at::Tensor x = random({3, 5}, at::kBFloat16, 2);
  x.mutable_data_ptr<at::BFloat16>()[7] = -9.0F;
  fp8_measure(amax, x);
  EXPECT_EQ(amax.item<float>(), 9);
  fp8_measure(amax, random({3, 5}, at::kBFloat16, 3));
  EXPECT_EQ(amax.item<float>(), 9);
}

TEST(Fp8, ProducersMeasureWhatTheyMake) {
  const at::Tensor gate_up = random({7, 2 * 24}, at::kBFloat16, 4), out = at::empty({7, 24}, gate_up.options()),
                   d = at::empty_like(gate_up);
  at::Tensor amax = at::zeros({1}, at::TensorOptions(at::kFloat));
  swiglu_forward(out, gate_up, amax);
  EXPECT_EQ(amax.item<float>(), out.abs().max().item<float>());
  amax.zero_();
  swiglu_backward(d, out, gate_up, amax);
  EXPECT_EQ(amax.item<float>(), d.abs().max().item<float>());
}

TEST(Fp8, ProductsOfWhatTheBytesStandFor) {
  const int64_t m = 32, n = 48, k = 64;
  for (at::ScalarType format : kFormats)
    for (bool accumulate : {false, true}) {
      const at::Tensor a = random({m, k}, at::kBFloat16, 5, 0, 3), b = random({n, k}, at::kBFloat16, 6, 0, 0.01);
      at::Tensor a_scale = scale_with(0), b_scale = scale_with(0);
      fp8_measure(a_scale.narrow(0, 0, 1), a);
      fp8_measure(b_scale.narrow(0, 0, 1), b);
      const at::Tensor a8 = empty8({m, k}, format), b8 = empty8({n, k}, at::kFloat8_e4m3fn);
      fp8_quantize(a8, {}, a_scale, a);
      fp8_quantize(b8, {}, b_scale, b);
      const at::Tensor old = random({m, n}, at::kFloat, 7);
      const at::Tensor out = accumulate ? old.clone() : reference::nan({m, n});
      fp8_matmul(out, {a8, a_scale}, {b8, b_scale}, accumulate);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += value_of(byte(a8, i * k + l), format) * value_of(byte(b8, j * k + l), at::kFloat8_e4m3fn);
          sum *= double{a_scale.const_data_ptr<float>()[kFp8Inverse]} * b_scale.const_data_ptr<float>()[kFp8Inverse];
          if (accumulate) sum += old.const_data_ptr<float>()[i * n + j];
          EXPECT_NEAR(out.const_data_ptr<float>()[i * n + j], sum, 1e-5 * (1 + std::abs(sum)));
        }
    }
}

TEST(Fp8, WrongSizesAreErrors) {
  at::Tensor scale = scale_with(1);
  EXPECT_THROW(fp8_quantize(empty8({8, 16}, at::kFloat8_e5m2), {}, scale, random({8, 16}, at::kBFloat16, 8)), Error);
  EXPECT_THROW(fp8_quantize({}, {}, scale, random({16, 16}, at::kBFloat16, 8)), Error);
  const Fp8 gradient{empty8({16, 16}, at::kFloat8_e5m2), scale};
  EXPECT_THROW(fp8_matmul(at::empty({16, 16}, at::TensorOptions(at::kFloat)), gradient, gradient, false), Error);
}

}  // namespace
}  // namespace partita::internal
