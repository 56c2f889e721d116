#include "partita/unicode/unicode.h"

#include <gtest/gtest.h>

#include <random>

namespace partita::internal {
namespace {

// Plain reading of the Unicode standard: decode by value, then refuse what table 3-7 leaves out.
CodePoint decode_by_value(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1};
  const uint32_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC0 || first > 0xF7 || at + bytes > text.size()) return {kInvalidByte, 1};
  char32_t value = first & (0xFFU >> (bytes + 1));
  for (uint32_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {kInvalidByte, 1};
    value = (value << 6) | (byte(at + i) & 0x3FU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[bytes] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {kInvalidByte, 1};
  return {value, bytes};
}

TEST(Unicode, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    append_utf8(text, c);
    const CodePoint decoded = decode_utf8(text, 0);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(decoded.value, surrogate ? kInvalidByte : c);
    ASSERT_EQ(decoded.bytes, surrogate ? 1 : text.size());
  }
}

TEST(Unicode, DecodesRandomBytesAsTheStandardSays) {
  std::mt19937 random(1);
  const std::string_view lively("\x00\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xED\xEF\xF0\xF4\xF5\xFF", 20);
  for (int round = 0; round < 100'000; ++round) {
    std::string text;
    for (size_t i = 0; i < 4; ++i) text += lively[random() % lively.size()];
    for (size_t at = 0; at < text.size(); ++at) {
      const CodePoint found = decode_utf8(text, at), expected = decode_by_value(text, at);
      ASSERT_EQ(found.value, expected.value) << round;
      ASSERT_EQ(found.bytes, expected.bytes) << round;
    }
  }
}

TEST(Unicode, Classes) {
  int spaces = 0;
  for (char32_t c = 0; c < 0x110000; ++c) spaces += char_class(c) == CharClass::space ? 1 : 0;
  EXPECT_EQ(spaces, 25);
  for (char32_t c : {0x09, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A, 0x2028, 0x202F, 0x205F, 0x3000}) {
    EXPECT_EQ(char_class(c), CharClass::space) << std::hex << static_cast<uint32_t>(c);
  }
  for (char32_t c : {0x08, 0x1C, 0x1F, 0x180E, 0x200B, 0x2060, 0xFEFF, 0x301}) {
    EXPECT_EQ(char_class(c), CharClass::other) << std::hex << static_cast<uint32_t>(c);
  }
  // The last two came with Unicode 15.1 and 16.
  for (char32_t c : {0x41, 0x130, 0x17F, 0x5D0, 0x3042, 0x4E2D, 0x2EBF0, 0x1C89}) {
    EXPECT_EQ(char_class(c), CharClass::letter) << std::hex << static_cast<uint32_t>(c);
  }
  for (char32_t c : {0x30, 0xB2, 0xBD, 0x2167, 0x2460, 0x966}) {
    EXPECT_EQ(char_class(c), CharClass::number) << std::hex << static_cast<uint32_t>(c);
  }
  EXPECT_EQ(char_class(0xA7CE), CharClass::other);  // a letter since Unicode 17: the version is pinned
  EXPECT_EQ(char_class(kInvalidByte), CharClass::other);
}

TEST(Unicode, FindsTheFirstInvalidByte) {
  EXPECT_EQ(find_invalid_utf8("plain ASCII, long enough for words of eight"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("Größe 中 👧"), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("ab\xFF"
                              "cd\xFE"),
            2U);
  EXPECT_EQ(find_invalid_utf8("ab\xFF"
                              "cd\xFE",
                              3),
            5U);
  EXPECT_EQ(find_invalid_utf8("12345678\xC3"), 8U);
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0U);  // a surrogate
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
}

TEST(Unicode, ReplacesMaximalParts) {
  EXPECT_EQ(replace_invalid_utf8("a\xFF"
                                 "b"),
            "a\uFFFDb");
  // The example of the Unicode standard, section 3.9, tables 3-8 and 3-11.
  EXPECT_EQ(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFDA");
}

}  // namespace
}  // namespace partita::internal
