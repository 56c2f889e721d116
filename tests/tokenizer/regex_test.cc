#include "partita/tokenizer/split/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "partita/tokenizer/split/regex_translation.h"
#include "partita/unicode/code_point_set.h"
#include "partita/unicode/unicode.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> found(std::string_view regex, std::string_view text) {
  std::vector<Regex::Match> matches;
  Regex(regex, "test").find_all(text, matches);
  std::vector<std::string> pieces;
  for (const auto& [begin, end] : matches) pieces.emplace_back(text.substr(begin, end - begin));
  return pieces;
}

TEST(Regex, Matches) {
  EXPECT_THAT(found("a+", "aab a"), ElementsAre("aa", "a"));
  EXPECT_THAT(found("\\p{N}{1,3}", "12345"), ElementsAre("123", "45"));
  EXPECT_THAT(found("[^\\p{L}\\s]+", "ab, 12!é"), ElementsAre(",", "12!"));
  EXPECT_THAT(found("\\P{L}", "aé中1"), ElementsAre("1"));
  EXPECT_THAT(found("\\p{^L}", "aé中1"), ElementsAre("1"));
  EXPECT_THAT(found("(?i:'s)", "'s'S'ſ'x"), ElementsAre("'s", "'S", "'ſ"));
  EXPECT_THAT(found("\\s+(?!\\S)", "a  b "), ElementsAre(" ", " "));
  EXPECT_THAT(found("[\\]\\-a\\\\]", "]-a\\b"), ElementsAre("]", "-", "a", "\\"));
  EXPECT_THAT(found("[x-]", "x-y"), ElementsAre("x", "-"));
  EXPECT_THAT(found("\\u4E2D|\\x{1F999}|\\x41", "中🦙AB"), ElementsAre("中", "🦙", "A"));
  EXPECT_THAT(found("(a|b)*+c|d??e|(?>f)", "abc e f"), ElementsAre("abc", "e", "f"));
  EXPECT_THAT(found("a#b c", "a#b c"), ElementsAre("a#b c"));
}

// As in Ruby: ^ and $ stand at lines, a dot is no line end.
TEST(Regex, LinesAreRubys) {
  EXPECT_THAT(found("^b", "ab\nbb"), ElementsAre("b"));
  EXPECT_THAT(found("a$", "a\na"), ElementsAre("a", "a"));
  EXPECT_THAT(found(".+", "a\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(found("\\Aa|a\\z", "a\na"), ElementsAre("a", "a"));
}

// PCRE2's own \s, \v, \h and \w have other characters.
TEST(Regex, ClassesAreThePinnedOnes) {
  EXPECT_THAT(found("\\s", "a\u180Eb\u200Bc\uFEFF"), IsEmpty());
  EXPECT_THAT(found("\\s", "\u0085\u00A0\u3000\x1C"), ElementsAre("\u0085", "\u00A0", "\u3000"));
  EXPECT_THAT(found("\\p{L}", "\u1C89\uA7CE"), ElementsAre("\u1C89"));  // of Unicode 16 and 17
  EXPECT_THAT(found("\\v", "\v\n"), ElementsAre("\v"));
  EXPECT_THAT(found("\\w", "a_½²\u0301-\u24B6"), ElementsAre("a", "_", "½", "²", "\u0301", "\u24B6"));
  EXPECT_THAT(found("\\d", "1٣½"), ElementsAre("1", "٣"));
}

TEST(Regex, EmptyMatchesStandBetweenOthers) {
  std::vector<Regex::Match> matches;
  Regex("(?=[A-Z])", "test").find_all("aBC", matches);
  ASSERT_EQ(matches.size(), 2U);
  EXPECT_EQ(matches[0].begin, 1U);
  EXPECT_EQ(matches[1].begin, 2U);
  matches.clear();
  Regex("x*", "test").find_all("axb", matches);
  std::vector<std::pair<size_t, size_t>> ends;
  for (const auto& match : matches) ends.emplace_back(match.begin, match.end);
  EXPECT_THAT(ends, ElementsAre(std::pair(0U, 0U), std::pair(1U, 2U), std::pair(3U, 3U)));
}

TEST(Regex, IllFormedBytesAreInNoMatch) {
  EXPECT_THAT(found("[^x]+",
                    "ab\xFF"
                    "c\xE4\xB8"),
              ElementsAre("ab", "c"));
}

TEST(Regex, LongTextsAreLinear) {
  const std::string spaces(1'000'000, ' ');
  EXPECT_EQ(found("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", spaces).size(), 1U);
  EXPECT_EQ(found("(?:a|b)+", std::string(1'000'000, 'a')).size(), 1U);
}

// No character is these in `tokenizers` either.
TEST(Regex, LettersWithoutLigaturesMayIgnoreCase) {
  for (const char* regex : {"(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:s)t", "st", "(?i:s|t)", "(?i:s+t)", "(?i:ts)"}) {
    EXPECT_EQ(error_message([&] { (void)translate_regex(regex, "t"); }), "no error") << regex;
  }
}

TEST(Regex, RefusesWhatDialectsUnderstandDifferently) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"\\bx", "\\b (at byte 2)"},
      {"\\1", "\\1"},
      {"\\h", "\\h"},
      {"\\p{Han}", "\\p{Han}: general categories, such as L or Lu, are known"},
      {"\\p{Cn}", "\\p{Cn}"},
      {"\\pL", "\\p without {NAME}"},
      {"(?<n>x)", "the group (?<n"},
      {"(?m:x)", "the group (?m:"},
      {"(?i)x", "the group (?i)"},
      {"[[:alpha:]]", "a class inside of a class"},
      {"[a&&b]", "&& in a class"},
      {"[b-a]", "a range that goes backwards"},
      {"[]a]", "a class that begins with ]"},
      {"[a-z-9]", "- in the middle of a class"},
      {"(?i:[a])", "a class where case is ignored"},
      {"(?i:ss)", "ss where case is ignored, which one character also is"},
      {"(?i:'sT)", "st where case is ignored"},
      {"(?i:\\x46(?:i|x))", "fi where case is ignored"},
      {"(?i:oF)(?i:f)", "ff where case is ignored"},
      {"(?i:é)", "characters beyond ASCII where case is ignored"},
      {"a{1,2}+", "{n,m}+"},
      {"a{2}?", "{n}?"},
      {"a{,2}", "{ that does not begin {n}"},
      {"a{9999}", "{ that does not begin {n}"},
      {"*a", "a quantifier with nothing to repeat"},
      {"a**", "a quantifier with nothing to repeat"},
      {"(?=a)*", "a quantifier with nothing to repeat"},
      {"(a", "a ( without its )"},
      {"a)", "a ) without its ("},
      {"[a", "it ends too early"},
      {"a\\", "it ends too early"},
      {"\\x{110000}", "a number that is not a character"},
      {"\\x{}", "an invalid hexadecimal number"},
      {"\\uD800", "a number that is not a character"},
      {"\xFF", "invalid UTF-8 at byte 0"},
  };
  for (const auto& [regex, message] : cases) {
    const std::string refusal = error_message([&, text = regex] { (void)translate_regex(text, "t.json: X"); });
    EXPECT_THAT(refusal, HasSubstr(message)) << regex;
    EXPECT_THAT(refusal, HasSubstr("t.json: X: the regular expression")) << regex;
  }
  EXPECT_THAT(error_message([] { Regex("(?<=a+)b", "t.json: X"); }), HasSubstr("lookbehind"));
  const std::string nested(200, '(');
  EXPECT_THAT(error_message([&] { (void)translate_regex(nested, "t"); }), HasSubstr("nested more than 100 deep"));
}

TEST(CodePointSet, RangesAndComplements) {
  using Range = CodePointSet::Range;
  CodePointSet set;
  set.add('c', 'd');
  set.add('a', 'b');
  set.add('x', 'x');
  EXPECT_THAT(set.ranges(), ElementsAre(Range{'a', 'd'}, Range{'x', 'x'}));
  const auto outside = set.complement().ranges();
  EXPECT_THAT(outside, ElementsAre(Range{0, 'a' - 1}, Range{'e', 'w'}, Range{'y', 0xD7FF}, Range{0xE000, 0x10FFFF}));
  EXPECT_THAT(set.complement().complement().ranges(), testing::ElementsAreArray(set.ranges()));
  EXPECT_THAT(CodePointSet().complement().ranges(), ElementsAre(Range{0, 0xD7FF}, Range{0xE000, 0x10FFFF}));
}

TEST(CodePointSet, CategoriesAreThoseOfTheTables) {
  const auto letters = CodePointSet::of_category("L")->ranges(), upper = CodePointSet::of_category("Lu")->ranges();
  const auto spaces = CodePointSet::white_space().ranges();
  const auto contains = [](const std::vector<CodePointSet::Range>& ranges, char32_t c) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [c](const CodePointSet::Range& range) { return c >= range.first && c <= range.last; });
  };
  for (char32_t c = 0; c < 0x3000; ++c) {
    EXPECT_EQ(contains(letters, c), char_class(c) == CharClass::letter) << static_cast<uint32_t>(c);
    EXPECT_EQ(contains(upper, c), category(c) == Category::Lu) << static_cast<uint32_t>(c);
    EXPECT_EQ(contains(spaces, c), char_class(c) == CharClass::space) << static_cast<uint32_t>(c);
  }
  EXPECT_FALSE(CodePointSet::of_category("X").has_value());
  EXPECT_FALSE(CodePointSet::of_category("").has_value());
}

}  // namespace
}  // namespace partita::internal
