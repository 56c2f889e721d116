#include "partita/tokenizer/split/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/tokenizer/normalizer.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Prepend = MetaspaceStep::Prepend;

std::vector<std::string> split(std::vector<PreTokenizerStep> steps, std::string_view text, bool at_start = true) {
  std::deque<std::string> arena;
  const PreTokenizer pre_tokenizer{std::move(steps)};
  std::vector<std::string> pieces;
  for (std::string_view piece : pre_tokenizer.split(text, at_start, arena)) pieces.emplace_back(piece);
  return pieces;
}

std::vector<std::string> dashes(SplitBehavior behavior, bool invert = false) {
  return split({SplitStep{Matcher::text("-"), behavior, invert}}, "a--b-c-");
}

// As `tokenizers` 0.23 cuts it.
TEST(PreTokenizer, Behaviors) {
  EXPECT_THAT(dashes(SplitBehavior::isolated), ElementsAre("a", "-", "-", "b", "-", "c", "-"));
  EXPECT_THAT(dashes(SplitBehavior::isolated, true), ElementsAre("a", "-", "-", "b", "-", "c", "-"));
  EXPECT_THAT(dashes(SplitBehavior::removed), ElementsAre("a", "b", "c"));
  EXPECT_THAT(dashes(SplitBehavior::removed, true), ElementsAre("-", "-", "-", "-"));
  EXPECT_THAT(dashes(SplitBehavior::merged_with_previous), ElementsAre("a-", "-", "b-", "c-"));
  EXPECT_THAT(dashes(SplitBehavior::merged_with_previous, true), ElementsAre("a", "-", "-b", "-c", "-"));
  EXPECT_THAT(dashes(SplitBehavior::merged_with_next), ElementsAre("a", "-", "-b", "-c", "-"));
  EXPECT_THAT(dashes(SplitBehavior::merged_with_next, true), ElementsAre("a-", "-", "b-", "c-"));
  EXPECT_THAT(dashes(SplitBehavior::contiguous), ElementsAre("a", "--", "b", "-", "c", "-"));
}

TEST(PreTokenizer, Matchers) {
  EXPECT_THAT(split({SplitStep{Matcher::digits(), SplitBehavior::isolated}}, "a12½"), ElementsAre("a", "1", "2", "½"));
  EXPECT_THAT(split({SplitStep{Matcher::punctuation(), SplitBehavior::isolated}}, "a!€。"),
              ElementsAre("a", "!", "€", "。"));
  EXPECT_THAT(split({SplitStep{Matcher::white_space(), SplitBehavior::removed}}, " a\u3000b\n"), ElementsAre("a", "b"));
  EXPECT_THAT(split({SplitStep{Matcher::regex("(?=[A-Z])", "t"), SplitBehavior::isolated}}, "helloWorldABC"),
              ElementsAre("hello", "World", "A", "B", "C"));
  EXPECT_THAT(split({SplitStep{Matcher::text(""), SplitBehavior::isolated}}, "ab"), ElementsAre("ab"));
}

TEST(PreTokenizer, Metaspace) {
  EXPECT_THAT(split({MetaspaceStep{}}, "a  b"), ElementsAre("▁a", "▁", "▁b"));
  EXPECT_THAT(split({MetaspaceStep{}}, " a"), ElementsAre("▁a"));
  EXPECT_THAT(split({MetaspaceStep{.prepend = Prepend::never}}, "a b"), ElementsAre("a", "▁b"));
  EXPECT_THAT(split({MetaspaceStep{.prepend = Prepend::first}}, "a", true), ElementsAre("▁a"));
  EXPECT_THAT(split({MetaspaceStep{.prepend = Prepend::first}}, "a", false), ElementsAre("a"));
  EXPECT_THAT(split({MetaspaceStep{.split = false}}, "a b"), ElementsAre("▁a▁b"));
}

TEST(PreTokenizer, StepsBehindByteLevelSeePrintableBytes) {
  const ByteLevelStep bytes{.add_prefix_space = false, .use_regex = true};
  EXPECT_THAT(split({bytes}, "a é1"), ElementsAre("a", " é", "1"));
  // "²" has the bytes C2 B2, and the printable form of B2 is "²": a number.
  EXPECT_THAT(split({bytes, SplitStep{Matcher::digits(), SplitBehavior::isolated}}, "x² 12"),
              ElementsAre("x", "\xC2", "\xB2", " ", "1", "2"));
  EXPECT_THAT(split({ByteLevelStep{true, false}}, "a"), ElementsAre(" a"));
  EXPECT_THAT(split({ByteLevelStep{true, false}}, " a"), ElementsAre(" a"));
  EXPECT_THAT(split({ByteLevelStep{true, true}}, ""), IsEmpty());
}

TEST(PreTokenizer, CommonOnesAreAScanners) {
  const ByteLevelStep all_of_it{false, true}, bytes_alone{false, false};
  const SplitStep qwen{Matcher{SplitPattern::qwen2}, SplitBehavior::isolated};
  EXPECT_EQ((PreTokenizer{{all_of_it}}).simplified()->pattern, SplitPattern::gpt2);
  EXPECT_TRUE((PreTokenizer{{ByteLevelStep{true, true}}}).simplified()->add_prefix_space);
  EXPECT_EQ((PreTokenizer{{bytes_alone}}).simplified()->pattern, SplitPattern::whole);
  EXPECT_EQ((PreTokenizer{{qwen, bytes_alone}}).simplified()->pattern, SplitPattern::qwen2);
  EXPECT_FALSE((PreTokenizer{{qwen, all_of_it}}).simplified().has_value());
  EXPECT_FALSE((PreTokenizer{{qwen, ByteLevelStep{true, false}}}).simplified().has_value());
  EXPECT_FALSE((PreTokenizer{{qwen}}).simplified().has_value());
  EXPECT_FALSE((PreTokenizer{}).simplified().has_value());
  const SplitStep removed{Matcher{SplitPattern::qwen2}, SplitBehavior::removed};
  EXPECT_FALSE((PreTokenizer{{removed, bytes_alone}}).simplified().has_value());
}

TEST(Normalizer, Steps) {
  const auto apply = [](std::vector<NormalizerStep> steps, std::string_view text) {
    return Normalizer{std::move(steps)}.apply(text);
  };
  EXPECT_EQ(apply({}, "a"), "a");
  EXPECT_EQ(apply({PrependStep{"▁"}, ReplaceStep{Matcher::text(" "), "▁"}}, "a b"), "▁a▁b");
  EXPECT_EQ(apply({PrependStep{"▁"}}, ""), "");
  EXPECT_EQ(apply({ReplaceStep{Matcher::regex("[0-9]+", "t"), "#"}}, "a12b3"), "a#b#");
  EXPECT_EQ(apply({ReplaceStep{Matcher::text("aa"), "b"}}, "aaaaa"), "bba");
  EXPECT_EQ(apply({StripStep{true, false}}, " \u3000a "), "a ");
  EXPECT_EQ(apply({StripStep{false, true}}, " a \n"), " a");
  EXPECT_EQ(apply({StripStep{true, true}}, " \n"), "");
  EXPECT_EQ(apply({NormalForm::nfd, StripAccentsStep{}}, "Ωé\u0301"), "Ωe");
}

}  // namespace
}  // namespace partita::internal
