#include "partita/tokenizer/split/gpt2_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "partita/base/file.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = gpt2_pretoken_end(text, begin);
    EXPECT_GT(end, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {
      "'s",     "'ll",    "'re",    "'",      " ", "  ",   "\n",       "\r\n", "\t",
      "a",      "Be",     "é",      "中",     "1", "42",   "½",        "!",    "...",
      "\u3000", "\u00a0", "\u200b", "\u0301", "👧", "\xFF", "\xE1\x80", "\xC3", std::string(1, '\0')};
  std::string text;
  for (auto n = random() % 20; n > 0; --n) text += kPieces[random() % kPieces.size()];
  return text;
}

TEST(Gpt2Split, Pieces) {
  EXPECT_THAT(split("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(split("It's we'll 'sure"), ElementsAre("It", "'s", " we", "'ll", " '", "sure"));
  EXPECT_THAT(split("'sure"), ElementsAre("'s", "ure"));
  EXPECT_THAT(split(" DON'T"), ElementsAre(" DON", "'", "T"));
  EXPECT_THAT(split("'ſ"), ElementsAre("'", "ſ"));
  EXPECT_THAT(split("a1!b"), ElementsAre("a", "1", "!", "b"));
  EXPECT_THAT(split("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(split("a \n b"), ElementsAre("a", " \n", " b"));
  EXPECT_THAT(split("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(split("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(split("a\u3000\u3000b"), ElementsAre("a", "\u3000", "\u3000", "b"));
  EXPECT_THAT(split("हिन्दी"), ElementsAre("ह", "ि", "न", "्", "द", "ी"));
  EXPECT_THAT(split("ab \xFF\xFE"
                    "c"),
              ElementsAre("ab", " \xFF\xFE", "c"));
}

TEST(Gpt2Split, MatchesTheGoldenPretokens) {
  const auto cases = nlohmann::json::parse(read_file(PARTITA_SOURCE_DIR "/tests/golden/tokenizer_cases.json"));
  ASSERT_GT(cases.size(), 300U);
  for (const auto& item : cases) {
    std::vector<size_t> characters;  // of each piece: each byte is one printable character there
    for (const std::string& piece : split(item["text"].get<std::string>())) characters.push_back(piece.size());
    EXPECT_EQ(characters, item["pretokens"].get<std::vector<size_t>>()) << item["text"];
  }
}

TEST(Gpt2Split, CoversEveryByteOfAnyText) {
  std::mt19937 random(2);
  for (int round = 0; round < 20'000; ++round) {
    const std::string text = random_text(random);
    std::string joined;
    for (const std::string& piece : split(text)) joined += piece;
    ASSERT_EQ(joined, text);
  }
}

TEST(Gpt2Split, SafeCutsChangeNoPiece) {
  std::mt19937 random(3);
  int cuts = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::string text = random_text(random);
    const size_t from = text.empty() ? 0 : random() % text.size();
    const size_t cut = gpt2_safe_cut(text, from);
    ASSERT_GE(cut, from);
    ASSERT_LE(cut, text.size());
    auto pieces = split(std::string_view(text).substr(0, cut));
    for (auto& piece : split(std::string_view(text).substr(cut))) pieces.push_back(piece);
    ASSERT_EQ(pieces, split(text)) << testing::PrintToString(text) << " cut at " << cut;
    cuts += cut > 0 && cut < text.size() ? 1 : 0;
  }
  EXPECT_GT(cuts, 1000);
}

}  // namespace
}  // namespace partita::internal
