#include "partita/tokenizer/split/splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "partita/tokenizer/split/pre_tokenizer.h"
#include "partita/tokenizer/split/regex.h"
#include "partita/unicode/unicode.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// The same as tiktoken writes it.
constexpr const char* kTiktokenGpt2 =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)";
constexpr const char* kTiktokenCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// cl100k_base of tiktoken with its \p{N}{1,3}+ and $ written in the dialect of tokenizer.json.
constexpr const char* kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";

std::vector<std::string> split(SplitPattern pattern, std::string_view text) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = pretoken_end(pattern, text, begin);
    EXPECT_GT(end, begin);
    if (end <= begin) break;
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {
      "'s",     "'S",     "'ſ",     "'ll",    "'Ll",    "'rE",       "'",      "'x",  " ",      "  ",    "\n",
      "\r\n",   "\t",     "a",      "Be",     "ABC",    "camelCase", "é",      "É",   "中",     "ǅ",     "ʰ",
      "\u0301", "\u093F", "1",      "42",     "12345",  "½",         "!",      "...", "/",      "//\n/", "\u3000",
      "\u00a0", "\u200b", "\u180e", "\u0085", "\u2028", "👧",         "\u1C89", "x",   "\u0130", "\x1C",  "\u20DD"};
  std::string text;
  for (auto n = random() % 24; n > 0; --n) {
    if (random() % 12 == 0) {
      const char32_t c = random() % 0x30000;
      if (c < 0xD800 || c >= 0xE000) append_utf8(text, c);
    } else {
      text += kPieces[random() % kPieces.size()];
    }
  }
  return text;
}

// PCRE2 with classes written out is another way to the same pieces.
TEST(Splitter, MatchesTheRegularExpressions) {
  struct Case {
    SplitPattern pattern;
    std::string regex;
  };
  std::string cl100k = kCl100k;  // a class where case is ignored is refused: [sdmt] by itself
  cl100k.replace(cl100k.find("[sdmt]"), 6, "s|d|m|t");
  for (const auto& [pattern, regex] : std::vector<Case>{{SplitPattern::gpt2, kGpt2},
                                                        {SplitPattern::gpt2, kTiktokenGpt2},
                                                        {SplitPattern::llama3, kLlama3},
                                                        {SplitPattern::qwen2, kQwen2},
                                                        {SplitPattern::cl100k, cl100k},
                                                        {SplitPattern::o200k, kO200k},
                                                        {SplitPattern::tekken, kTekken}}) {
    const Regex reference(regex, "test");
    std::mt19937 random(11);
    for (int round = 0; round < 4000; ++round) {
      const std::string text = random_text(random);
      std::vector<Regex::Match> matches;
      reference.find_all(text, matches);
      std::vector<std::string> expected;
      for (const auto& [begin, end] : matches) expected.push_back(text.substr(begin, end - begin));
      ASSERT_EQ(split(pattern, text), expected) << static_cast<int>(pattern) << ": " << text;
    }
  }
}

TEST(Splitter, Pieces) {
  EXPECT_THAT(split(SplitPattern::llama3, "DON'T 12345 x\n\n y"),
              ElementsAre("DON", "'T", " ", "123", "45", " x", "\n\n", " y"));
  EXPECT_THAT(split(SplitPattern::llama3, "'ſ'sure!\n\nx"), ElementsAre("'ſ", "'s", "ure", "!\n\n", "x"));
  EXPECT_THAT(split(SplitPattern::qwen2, "1234"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(split(SplitPattern::o200k, "HTTPServer camelCase we'll"),
              ElementsAre("HTTPServer", " camel", "Case", " we'll"));
  EXPECT_THAT(split(SplitPattern::tekken, "we'll 12"), ElementsAre("we", "'ll", " ", "1", "2"));
  EXPECT_THAT(split(SplitPattern::whole, "a b"), ElementsAre("a b"));
  // White space at the end of the text, which only cl100k keeps together.
  EXPECT_THAT(split(SplitPattern::cl100k, "x\n  "), ElementsAre("x", "\n  "));
  EXPECT_THAT(split(SplitPattern::llama3, "x\n  "), ElementsAre("x", "\n", "  "));
}

// A byte that is no part of UTF-8 is neither space, letter nor number, and never part of another character.
TEST(Splitter, CoversAnyBytes) {
  EXPECT_THAT(split(SplitPattern::llama3,
                    "ab\xFF\xFE"
                    "cd"),
              ElementsAre("ab", "\xFF\xFE", "cd"));
  EXPECT_THAT(split(SplitPattern::o200k,
                    "ab\xE4\xB8"
                    "1"),
              ElementsAre("ab", "\xE4\xB8", "1"));
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto n = random() % 40; n > 0; --n) text += static_cast<char>(random() % 3 == 0 ? random() : random() % 0x80);
    for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::cl100k, SplitPattern::llama3,
                                       SplitPattern::qwen2, SplitPattern::o200k, SplitPattern::tekken}) {
      std::string joined;
      for (const std::string& piece : split(pattern, text)) joined += piece;
      ASSERT_EQ(joined, text);
    }
  }
}

TEST(Splitter, KnowsPatternsByTheirText) {
  EXPECT_EQ(find_split_pattern(kGpt2), SplitPattern::gpt2);
  EXPECT_EQ(find_split_pattern(kLlama3), SplitPattern::llama3);
  EXPECT_EQ(find_split_pattern(kQwen2), SplitPattern::qwen2);
  EXPECT_EQ(find_split_pattern(kO200k), SplitPattern::o200k);
  EXPECT_EQ(find_split_pattern(kTekken), SplitPattern::tekken);
  EXPECT_EQ(find_split_pattern(kTiktokenGpt2), SplitPattern::gpt2);
  EXPECT_EQ(find_split_pattern(std::string(kGpt2) + " "), std::nullopt);
  // Where tokenizer.json has it, "12345" is one piece, which no scanner here makes.
  EXPECT_EQ(find_split_pattern(kTiktokenCl100k), std::nullopt);
  EXPECT_THAT(error_message([] { static_cast<void>(Matcher::regex(kTiktokenCl100k, "t.json: pattern.Regex")); }),
              HasSubstr("t.json: pattern.Regex: the regular expression '(?i:[sdmt]|ll|ve|re)"));
}

}  // namespace
}  // namespace partita::internal
