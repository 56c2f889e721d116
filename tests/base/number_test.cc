#include "partita/base/number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace partita::internal {
namespace {

TEST(ParseNumber, TakesTheWholeText) {
  EXPECT_EQ(parse_number<int64_t>("12"), 12);
  EXPECT_EQ(parse_number<int64_t>("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parse_number<int64_t>("010"), 10);  // decimal, never octal
  EXPECT_EQ(parse_number<double>("1e-3"), 1e-3);
  for (const char* text : {"", " 1", "1 ", "1e3", "1.0", "0x10", "1,000", "1_000", "ten", "+5", "9223372036854775808"})
    EXPECT_FALSE(parse_number<int64_t>(text)) << text;
  // What a C library would wrap around.
  for (const char* text : {"-1", "18446744073709551616", "-0"}) EXPECT_FALSE(parse_number<uint64_t>(text)) << text;
  for (const char* text : {"", "1,5", "1e", "0.1x", "+0.1"}) EXPECT_FALSE(parse_number<double>(text)) << text;
}

TEST(IsIntegerText, SaysNothingOfTheSize) {
  for (const char* text : {"0", "-1", "18446744073709551616"}) EXPECT_TRUE(is_integer_text(text)) << text;
  for (const char* text : {"", "-", "+5", "1.0", "1e3", "0x1", " 1"}) EXPECT_FALSE(is_integer_text(text)) << text;
}

TEST(PlainInteger, KnowsOtherNotations) {
  const std::pair<const char*, const char*> cases[] = {{"1,000", "1000"},
                                                       {"1_000_000", "1000000"},
                                                       {"12'345", "12345"},
                                                       {"1e3", "1000"},
                                                       {"2.5e3", "2500"},
                                                       {"64.0", "64"},
                                                       {"4k", "4000"},
                                                       {"1.5M", "1500000"},
                                                       {"3B", "3000000000"},
                                                       {"0x10", "16"},
                                                       {"+5", "5"},
                                                       {"-3.0", "-3"},
                                                       {"9007199254740992.0", "9007199254740992"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(plain_integer(text), expected) << text;
  for (const char* text : {"", "x", "1,5", "1,00", "10,00,000", ",000", "1,000_000", "0.5", "1e40", "nan", "inf", "12h",
                           "0x", "0xzz", "k", "1e-3", "--5", "1234,567"})
    EXPECT_EQ(plain_integer(text), "") << text;
}

}  // namespace
}  // namespace partita::internal
