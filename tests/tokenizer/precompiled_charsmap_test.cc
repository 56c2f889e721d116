#include "partita/tokenizer/sentencepiece/precompiled_charsmap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/tokenizer/sentencepiece/sentencepiece_model.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

// The rules stand in tests/golden/make_sentencepiece.py.
std::string golden() {
  const std::string path = PARTITA_SOURCE_DIR "/tests/golden/sentencepiece/bpe_rules.model";
  return parse_sentencepiece_model(read_file(path), path).normalizer.precompiled_charsmap;
}

TEST(PrecompiledCharsmap, TheLongestRule) {
  const PrecompiledCharsmap rules(golden(), "t");
  const auto replaced = [&](std::string_view text) {
    const auto rule = rules.longest(text);
    return rule ? std::to_string(rule->bytes) + ":" + std::string(rule->replacement) : "none";
  };
  EXPECT_EQ(replaced("Ａx"), "3:A");
  EXPECT_EQ(replaced("e\u0301x"), "3:é");
  EXPECT_EQ(replaced("e\u0301\u0301x"), "5:ee");
  EXPECT_EQ(replaced("\u200b"), "3:");
  EXPECT_EQ(replaced("\t"), "1: ");
  EXPECT_EQ(replaced("e"), "none");
  EXPECT_EQ(replaced("e\xCC"), "none");
  EXPECT_EQ(replaced("x"), "none");
  EXPECT_EQ(replaced(""), "none");
  EXPECT_TRUE(rules.may_begin_with("e"));
  EXPECT_FALSE(rules.may_begin_with("ea"));
  EXPECT_TRUE(rules.may_begin_with("\ta"));
}

TEST(PrecompiledCharsmap, WithoutRules) {
  const PrecompiledCharsmap none("", "t");
  EXPECT_TRUE(none.empty());
  EXPECT_FALSE(none.longest("a").has_value());
  EXPECT_FALSE(none.may_begin_with(""));
}

TEST(PrecompiledCharsmap, RefusesBrokenBytes) {
  const auto refusal = [](const std::string& bytes) {
    return error_message([&] { PrecompiledCharsmap rules(bytes, "t"); });
  };
  const std::string whole = golden();
  EXPECT_THAT(refusal("abc"), HasSubstr("t: more than 3 bytes expected"));
  EXPECT_THAT(refusal(std::string(5, '\0')), HasSubstr("0 bytes: a multiple of 1024"));
  EXPECT_THAT(refusal(whole.substr(0, 1000)), HasSubstr("a multiple of 1024 below 996"));
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1) + "x"), HasSubstr("do not end with a null"));
  std::string rootless = whole;
  rootless[4] = 'a';
  EXPECT_THAT(refusal(rootless), HasSubstr("no root"));
  std::string outside = whole;
  outside.replace(4 + 40, 4, "\xFF\xFF\xFF\x7F");
  EXPECT_THAT(refusal(outside), HasSubstr("leads out of itself"));
  outside.replace(4 + 40, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_THAT(refusal(outside), HasSubstr("out of range"));
}

// What passes the check is safe to look in.
TEST(PrecompiledCharsmap, RandomDamage) {
  std::mt19937 draw(1);
  const std::string whole = golden();
  int passed = 0;
  for (int i = 0; i < 500; ++i) {
    std::string broken = whole;
    for (unsigned n = 1 + draw() % 3; n > 0; --n)
      broken[4 + draw() % (broken.size() - 4)] ^= static_cast<char>(1U << (draw() % 8));
    try {
      const PrecompiledCharsmap rules(broken, "t");
      ++passed;
      for (int j = 0; j < 50; ++j) {
        std::string text;
        for (size_t n = draw() % 9; n > 0; --n) text += static_cast<char>(draw());
        const auto rule = rules.longest(text);
        EXPECT_LE(rule ? rule->bytes : 0, text.size());
      }
    } catch (const Error&) {
    }
  }
  EXPECT_GT(passed, 20);
}

}  // namespace
}  // namespace partita::internal
