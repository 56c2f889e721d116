#include "partita/unicode/normal_forms.h"

#include <gtest/gtest.h>

#include <random>

#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

using namespace std::string_literals;

std::string nfc(std::string_view text) { return normalized(NormalForm::nfc, text); }
std::string nfd(std::string_view text) { return normalized(NormalForm::nfd, text); }
std::string nfkc(std::string_view text) { return normalized(NormalForm::nfkc, text); }
std::string nfkd(std::string_view text) { return normalized(NormalForm::nfkd, text); }

// Examples of Unicode Standard Annex 15, and of NormalizationTest.txt.
TEST(NormalForms, KnownValues) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfd("\u00E9"), "e\u0301");
  EXPECT_EQ(nfc("\u212B"), "\u00C5");  // the sign of Angstrom is a singleton
  EXPECT_EQ(nfc("s\u0323\u0307"), "\u1E69");
  EXPECT_EQ(nfc("s\u0307\u0323"), "\u1E69");  // marks are ordered by class
  EXPECT_EQ(nfd("\u1E69"), "s\u0323\u0307");
  EXPECT_EQ(nfc("\u1E0B\u0323"), "\u1E0D\u0307");
  EXPECT_EQ(nfkc("\uFB01\u2460\u017F"), "fi1s");
  EXPECT_EQ(nfc("\uFB01\u2460\u017F"), "\uFB01\u2460\u017F");
  EXPECT_EQ(nfkd("\u1E9B\u0323"), "s\u0323\u0307");
  EXPECT_EQ(nfkc("\u1E9B\u0323"), "\u1E69");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc("a\u0338"), "a\u0338");  // no such composition
  EXPECT_EQ(nfc("<\u0338"), "\u226E");
  EXPECT_EQ(nfc("a\u0315\u0301"), "\u00E1\u0315");  // is not blocked by a mark of another class
  EXPECT_EQ(nfc("\u0301"), "\u0301");
  EXPECT_EQ(nfc(""), "");
}

TEST(NormalForms, HangulIsArithmetic) {
  EXPECT_EQ(nfd("\uAC01"), "\u1100\u1161\u11A8");
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\uAC01\u11A8"), "\uAC01\u11A8");
  EXPECT_EQ(nfc("\uAC00\u11A7"), "\uAC00\u11A7");
}

// Unicode 9.0: what came later stays where it stands. U+1E08F, of 15.0, has a combining class now, U+11938 a
// decomposition (13.0).
TEST(NormalForms, TheVersionIsPinned) {
  EXPECT_EQ(nfd("a\u0301\U0001E08F"), "a\u0301\U0001E08F");
  EXPECT_EQ(nfc("a\u0301\u1E26"), "\u00E1\u1E26");
  EXPECT_EQ(nfc("a\U0001E08F\u0323"), "a\U0001E08F\u0323");
  EXPECT_EQ(nfd("\U00011938"), "\U00011938");
  EXPECT_EQ(nfkc("\u32FF"), "\u32FF");  // the era of 2019
}

TEST(NormalForms, FormsAgreeWithEachOther) {
  std::mt19937 random(9);
  for (int round = 0; round < 30'000; ++round) {
    std::string text;
    for (auto n = random() % 8; n > 0; --n) {
      static constexpr struct {
        char32_t first, count;
      } kLively[] = {{'a', 26},      {0x300, 0x70}, {0xC0, 0x200},   {0x1100, 256}, {0xAC00, 999},
                     {0x900, 0x400}, {0x1E00, 256}, {0xF900, 0x400}, {0x3040, 0x60}};
      const auto& range = kLively[random() % std::size(kLively)];
      append_utf8(text, range.first + static_cast<char32_t>(random() % range.count));
    }
    ASSERT_EQ(nfc(nfd(text)), nfc(text)) << text;
    ASSERT_EQ(nfd(nfc(text)), nfd(text)) << text;
    ASSERT_EQ(nfc(nfc(text)), nfc(text)) << text;
    ASSERT_EQ(nfkc(nfkd(text)), nfkc(text)) << text;
    ASSERT_EQ(nfkd(nfc(text)), nfkd(text)) << text;
  }
}

// Text that is ASCII is passed over eight bytes at a time: the same wherever the mark stands.
TEST(NormalForms, MarksBehindAsciiOfAnyLength) {
  for (size_t before = 0; before < 40; ++before) {
    for (size_t after = 0; after < 20; ++after) {
      const std::string left(before, 'x'), right(after, 'e');
      ASSERT_EQ(nfc(left + "e\u0301" + right), left + "\u00E9" + right);
      ASSERT_EQ(nfc(left + "\u0301" + right), before == 0 ? "\u0301" + right : left + "\u0301" + right);
      ASSERT_EQ(nfc(left + "\u00E9" + right + "\u0327"),
                after == 0 ? left + "\u0229\u0301" : left + "\u00E9" + right.substr(1) + "\u0229");
    }
  }
}

TEST(NormalForms, UnchangedTextIsNotCopied) {
  const std::string text = "plain text, \u00E9 and \u4E2D";
  std::string buffer;
  EXPECT_EQ(normalized(NormalForm::nfc, text, buffer).data(), text.data());
  const std::string_view changed = normalized(NormalForm::nfd, text, buffer);
  EXPECT_EQ(changed.data(), buffer.data());
}

TEST(NormalForms, IllFormedBytesStay) {
  EXPECT_EQ(nfc("e\u0301\xFF\u0301\xE4\xB8"), "\u00E9\xFF\u0301\xE4\xB8");
  EXPECT_EQ(nfd("\xC3\u00E9\xC3"),
            "\xC3"
            "e\u0301\xC3");
}

TEST(NormalForms, ManyMarksAreSorted) {
  std::string text = "a", expected = "a";
  for (int i = 0; i < 300'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  for (int i = 0; i < 300'000; ++i) expected += i < 150'000 ? "\u0323" : "\u0301";
  EXPECT_EQ(nfd(text), expected);
}

TEST(NormalForms, MarksAndPunctuation) {
  for (char32_t c : {0x301, 0x93F, 0x20DD, 0x1CF2}) EXPECT_TRUE(is_mark(c)) << static_cast<uint32_t>(c);
  for (char32_t c : {U'a', U'\U000111C9', U'\U0001E08F'}) EXPECT_FALSE(is_mark(c)) << static_cast<uint32_t>(c);
  for (char32_t c : U"!$+<^`|~\u2014\u3002\U000111C9"s) {
    EXPECT_TRUE(is_punctuation(c)) << static_cast<uint32_t>(c);
  }
  for (char32_t c : U"a0 \u20AC\u2E43"s) EXPECT_FALSE(is_punctuation(c)) << static_cast<uint32_t>(c);
}

}  // namespace
}  // namespace partita::internal
