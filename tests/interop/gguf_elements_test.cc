#include "partita/interop/gguf_elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "tests/interop/gguf_reader.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// tests/golden/make_gguf.py: an array and what llama.cpp's package makes of it.
TEST(GgufElements, BlocksAreThoseOfTheReference) {
  const GgufContents golden = read_gguf(PARTITA_SOURCE_DIR "/tests/golden/gguf/q8_0.gguf");
  const std::string& text = golden.tensors.at("values").bytes;
  std::vector<float> values(text.size() / 4);
  std::memcpy(values.data(), text.data(), text.size());
  ASSERT_EQ(values.size(), 4096U);
  GgufElements elements;
  EXPECT_EQ(as_text(elements.of("w", GgufType::q8_0, values)), golden.tensors.at("blocks").bytes);
}

TEST(GgufElements, ABlockIsAFactorAndItsMultiples) {
  std::array<float, 32> values{};
  values[0] = -127;
  values[1] = 0.5F;  // halves round away from zero
  values[2] = -0.5F;
  values[3] = 2.49F;
  GgufElements elements;
  const std::string block = as_text(elements.of("w", GgufType::q8_0, values));
  ASSERT_EQ(block.size(), 34U);
  EXPECT_EQ(block.substr(0, 6), std::string("\x00\x3C\x81\x01\xFF\x02", 6));  // 1 in fp16, then -127, 1, -1, 2
  EXPECT_EQ(as_text(elements.of("w", GgufType::q8_0, std::array<float, 32>{})), std::string(34, '\0'));
}

TEST(GgufElements, PlainTypesAreRoundedToNearest) {
  const std::array values = {1.F, -0x1.01p0F, 65504.F};
  GgufElements elements;
  EXPECT_EQ(as_text(elements.of("w", GgufType::f32, values)).substr(4, 4), std::string("\x00\x80\x80\xBF", 4));
  EXPECT_EQ(as_text(elements.of("w", GgufType::bf16, values)), std::string("\x80\x3F\x80\xBF\x80\x47", 6));
  EXPECT_EQ(as_text(elements.of("w", GgufType::f16, values)), std::string("\x00\x3C\x04\xBC\xFF\x7B", 6));
}

TEST(GgufElements, RefuseWhatTheTypeCannotHold) {
  GgufElements elements;
  std::array<float, 32> values{};
  const auto message = [&](GgufType type) { return error_message([&] { (void)elements.of("w", type, values); }); };
  values[31] = 70000;
  EXPECT_THAT(message(GgufType::f16),
              HasSubstr("'w' holds 70000, which fp16 cannot represent: export with --dtype bf16 or fp32"));
  EXPECT_EQ(message(GgufType::q8_0), "no error");
  values[31] = -127 * 65520.F;
  EXPECT_THAT(message(GgufType::q8_0), HasSubstr("'w' holds 8321040, which q8_0 cannot represent"));
  values[31] = std::numeric_limits<float>::max();
  EXPECT_THAT(message(GgufType::bf16), AllOf(HasSubstr("which bf16 cannot represent"), HasSubstr("--dtype fp32")));
  values[31] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message(GgufType::q8_0), HasSubstr("'w' holds nan, which q8_0 cannot represent"));
  EXPECT_EQ(message(GgufType::f32), "no error");
}

}  // namespace
}  // namespace partita::internal
