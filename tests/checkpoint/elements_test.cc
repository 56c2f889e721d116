#include "partita/checkpoint/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace partita::internal {
namespace {

std::optional<size_t> overflow(ElementType type, float value) { return find_overflow(type, std::array{0.F, value}); }

// Exactly what rounds to infinity: from_fp32 and back say the same.
TEST(Elements, OverflowIsWhatWouldRoundToInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const ElementType type : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
    for (const float limit : {65504.F, 65519.996F, 65520.F, 65536.F, 0x1.FEp127F, 0x1.FEFFFEp127F, 0x1.FFp127F,
                              std::numeric_limits<float>::max(), 1.F, 0.F}) {
      for (const float value : {limit, -limit}) {
        std::array<std::byte, 4> bytes{};
        std::array<float, 1> back{};
        from_fp32(type, std::array{value}, bytes.data());
        to_fp32(type, bytes.data(), 1, back);
        EXPECT_EQ(overflow(type, value).has_value(), std::isinf(back[0])) << name_of(type) << " " << value;
      }
    }
    EXPECT_EQ(overflow(type, kInfinity), std::nullopt);  // it is what it was
    EXPECT_EQ(overflow(type, std::nanf("")), std::nullopt);
  }
  EXPECT_EQ(overflow(ElementType::f16, 1e5F), 1U);
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The bits of one element.
uint32_t converted(DType from, uint32_t bits, DType to) {
  std::array<std::byte, 4> in{}, out{};
  std::memcpy(in.data(), &bits, in.size());
  convert_elements(from, std::span(in).first(static_cast<size_t>(size_of(from))), to, out.data());
  return std::bit_cast<uint32_t>(out);
}

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

TEST(ConvertElements, RoundsToNearestWithTiesToEven) {
  // bf16 keeps the upper half of an fp32: the lower half decides, and at 0x8000 the last bit that is kept.
  for (const auto& [in, out] : std::vector<std::pair<uint32_t, uint32_t>>{{0x3F800000, 0x3F80},
                                                                          {0x3F807FFF, 0x3F80},
                                                                          {0x3F808000, 0x3F80},
                                                                          {0x3F808001, 0x3F81},
                                                                          {0x3F818000, 0x3F82},
                                                                          {0xBF818000, 0xBF82},
                                                                          {0x80000000, 0x8000},
                                                                          {0x00018000, 0x0002},
                                                                          {0x7F800000, 0x7F80},
                                                                          {0xFF800000, 0xFF80}})
    EXPECT_EQ(converted(DType::fp32, in, DType::bf16), out) << std::hex << in;
  for (const auto& [in, out] : std::vector<std::pair<float, uint32_t>>{{1.F, 0x3C00},
                                                                       {1.F + 0x1p-11F, 0x3C00},
                                                                       {1.F + 0x3p-11F, 0x3C02},
                                                                       {65519.996F, 0x7BFF},
                                                                       {0x1p-24F, 0x0001},
                                                                       {0x1p-25F, 0x0000},
                                                                       {-0x1.8p-24F, 0x8002}})
    EXPECT_EQ(converted(DType::fp32, bits_of(in), DType::fp16), out) << in;
}

// Every value of a half precision, through fp32 and back; a NaN stays one.
TEST(ConvertElements, HalfPrecisionIsExactInFp32) {
  for (const DType half : {DType::bf16, DType::fp16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const uint32_t wide = converted(half, bits, DType::fp32);
      if (std::isnan(std::bit_cast<float>(wide)))
        EXPECT_TRUE(std::isnan(std::bit_cast<float>(converted(half, converted(DType::fp32, wide, half), DType::fp32))));
      else
        ASSERT_EQ(converted(DType::fp32, wide, half), bits) << name_of(half);
    }
}

TEST(ConvertElements, ManyAtOnceAndWithoutAlignment) {
  std::vector<float> values(5001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 100;
  std::vector<std::byte> in = bytes_of(values), out(values.size() * 2 + 1);
  in.insert(in.begin(), std::byte{0});
  convert_elements(DType::fp32, std::span(in).subspan(1), DType::bf16, out.data() + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, out.data() + 1 + 2 * i, 2);
    ASSERT_EQ(bits, converted(DType::fp32, bits_of(values[i]), DType::bf16)) << i;
  }
  convert_elements(DType::fp32, {}, DType::bf16, nullptr);
}

TEST(ConvertElements, OfOneTypeKeepTheirBits) {
  EXPECT_EQ(converted(DType::fp32, 0x7FA00001, DType::fp32), 0x7FA00001U) << "a signaling NaN";
  EXPECT_EQ(converted(DType::int32, 0x12345678, DType::int32), 0x12345678U);
}

TEST(ConvertElements, WhichTypesCanBe) {
  for (const DType from : {DType::fp32, DType::bf16, DType::fp16})
    for (const DType to : {DType::fp32, DType::bf16, DType::fp16}) {
      EXPECT_TRUE(convertible(from, to));
      EXPECT_EQ(rounds(from, to), from != to && to != DType::fp32);
    }
  EXPECT_TRUE(convertible(DType::int64, DType::int64));
  EXPECT_FALSE(convertible(DType::int64, DType::int32));
  EXPECT_FALSE(convertible(DType::uint8, DType::fp32));
  EXPECT_FALSE(convertible(DType::fp32, DType::int32));
}

TEST(ConvertElements, FindsTheFirstOverflow) {
  std::vector<float> values(4100, 1.F);
  values[10] = std::numeric_limits<float>::infinity();
  values[20] = std::nanf("");
  EXPECT_EQ(find_overflow(DType::fp32, bytes_of(values), DType::fp16), std::nullopt);
  values[4099] = 70000.F;
  values[3000] = -70000.F;
  EXPECT_EQ(find_overflow(DType::fp32, bytes_of(values), DType::fp16), 3000U);
  EXPECT_EQ(find_overflow(DType::fp32, bytes_of(values), DType::bf16), std::nullopt);
  EXPECT_EQ(find_overflow(DType::fp32, bytes_of(values), DType::fp32), std::nullopt);
  values[1] = std::numeric_limits<float>::max();
  EXPECT_EQ(find_overflow(DType::fp32, bytes_of(values), DType::bf16), 1U);
  EXPECT_EQ(find_overflow(DType::bf16, bytes_of(std::vector<uint16_t>{0x3F80, 0x7F00}), DType::fp16), 1U);
}

}  // namespace
}  // namespace partita::internal
