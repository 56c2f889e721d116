#include "partita/tokenizer/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

AddedTokens made(std::vector<AddedToken> tokens) {
  std::vector<std::string> spellings;
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i].id = static_cast<TokenId>(i);
    spellings.push_back(tokens[i].content);
  }
  return {std::move(tokens), spellings};
}

// Text as it is, tokens as "#id:what they cover".
std::vector<std::string> split(const AddedTokens& tokens, std::string_view text, bool allow_special = true) {
  std::vector<AddedTokens::Part> parts;
  tokens.split(text, allow_special, parts);
  std::vector<std::string> shown;
  for (const auto& [begin, end, id] : parts) {
    const std::string covered(text.substr(begin, end - begin));
    shown.push_back(id ? "#" + std::to_string(*id) + ":" + covered : covered);
  }
  return shown;
}

TEST(AddedTokens, TheLongestAtThePlaceIsFound) {
  const AddedTokens tokens = made({{.content = "<a>"}, {.content = "<a><b>"}, {.content = "<b>"}});
  EXPECT_THAT(split(tokens, "x<a><b>y<a>"), ElementsAre("x", "#1:<a><b>", "y", "#0:<a>"));
  EXPECT_THAT(split(tokens, "<b><b"), ElementsAre("#2:<b>", "<b"));
  EXPECT_THAT(split(tokens, ""), IsEmpty());
  EXPECT_THAT(split(made({{.content = "é"}}), "xé\xC3"), ElementsAre("x", "#0:é", "\xC3"));
  EXPECT_THAT(split(made({{.content = ""}}), "ab"), ElementsAre("ab"));
}

TEST(AddedTokens, SpecialOnesAreTextUnlessAllowed) {
  const AddedTokens tokens = made({{.content = "<s>", .special = true}, {.content = "s>"}});
  EXPECT_TRUE(tokens.any(false));
  EXPECT_THAT(split(tokens, "a<s>s>", true), ElementsAre("a", "#0:<s>", "#1:s>"));
  // What is turned down has been found all the same: nothing is looked for inside of it.
  EXPECT_THAT(split(tokens, "a<s>s>", false), ElementsAre("a<s>", "#1:s>"));
  EXPECT_FALSE(made({{.content = "<s>", .special = true}}).any(false));
  EXPECT_TRUE(made({{.content = "<s>", .special = true}}).any(true));
}

TEST(AddedTokens, SingleWordsStandAlone) {
  const AddedTokens tokens = made({{.content = "QZ", .single_word = true}});
  EXPECT_THAT(split(tokens, "QZ QZx xQZ 1QZ éQZ QZ\u0301 QZ\u200D QZ-QZ"),
              ElementsAre("#0:QZ", " QZx xQZ 1QZ éQZ QZ\u0301 QZ\u200D ", "#0:QZ", "-", "#0:QZ"));
}

TEST(AddedTokens, WhiteSpaceBesideThem) {
  const AddedTokens tokens = made({{.content = "[L]", .lstrip = true}, {.content = "[R]", .rstrip = true}});
  EXPECT_THAT(split(tokens, "a \u3000[L] b"), ElementsAre("a", "#0: \u3000[L]", " b"));
  EXPECT_THAT(split(tokens, "a [R]\n b"), ElementsAre("a ", "#1:[R]\n ", "b"));
  EXPECT_THAT(split(tokens, "[R] [L]"), ElementsAre("#1:[R] ", "#0:[L]"));
}

// Tokens of spaces that take spaces with them: 12 s where each looked through the run again.
TEST(AddedTokens, RunsOfSpacesTakeLinearTime) {
  const std::string spaces(300'000, ' ');
  for (const AddedToken& token :
       {AddedToken{.content = " ", .lstrip = true}, AddedToken{.content = " ", .rstrip = true},
        AddedToken{.content = " ", .lstrip = true, .rstrip = true}}) {
    std::vector<AddedTokens::Part> parts;
    const auto begin = std::chrono::steady_clock::now();
    made({token}).split(spaces + "x" + spaces, true, parts);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    EXPECT_EQ(parts.size(), 600'001U);
  }
}

// The first two bytes pick the places that are looked at: the same as looking at all.
TEST(AddedTokens, FindsWhatASlowSearchFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<AddedToken> list;
    for (auto n = 1 + random() % 6; n > 0; --n) {
      AddedToken token;
      for (auto length = 1 + random() % 3; length > 0; --length) token.content += static_cast<char>('a' + random() % 3);
      const auto same = [&](const AddedToken& other) { return other.content == token.content; };
      if (std::none_of(list.begin(), list.end(), same)) list.push_back(token);
    }
    std::string text;
    for (auto n = random() % 30; n > 0; --n) text += static_cast<char>('a' + random() % 4);
    std::vector<std::string> expected;
    std::string plain;
    for (size_t at = 0; at < text.size();) {
      size_t best = list.size();
      for (size_t i = 0; i < list.size(); ++i) {
        if (!std::string_view(text).substr(at).starts_with(list[i].content)) continue;
        if (best == list.size() || list[i].content.size() > list[best].content.size()) best = i;
      }
      if (best == list.size()) {
        plain += text[at++];
        continue;
      }
      if (!plain.empty()) expected.push_back(plain);
      plain.clear();
      expected.push_back("#" + std::to_string(best) + ":" + list[best].content);
      at += list[best].content.size();
    }
    if (!plain.empty()) expected.push_back(plain);
    ASSERT_EQ(split(made(list), text), expected) << text;
  }
}

}  // namespace
}  // namespace partita::internal
