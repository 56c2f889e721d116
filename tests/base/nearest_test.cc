#include "partita/base/nearest.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace partita::internal {
namespace {

TEST(EditDistance, CountsEachKindOfChange) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("abc", "abxc"), 1U);   // insertion
  EXPECT_EQ(edit_distance("abc", "ac"), 1U);     // deletion
  EXPECT_EQ(edit_distance("abc", "axc"), 1U);    // replacement
  EXPECT_EQ(edit_distance("abcd", "acbd"), 1U);  // swap of neighbours
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);  // no change inside swapped letters
}

TEST(EditDistance, IsSymmetricAndBounded) {
  std::mt19937 random(7);
  const auto word = [&random] {
    std::string text(random() % 9, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int i = 0; i < 500; ++i) {
    const std::string a = word(), b = word();
    const size_t distance = edit_distance(a, b);
    EXPECT_EQ(distance, edit_distance(b, a)) << a << " " << b;
    EXPECT_EQ(distance == 0, a == b);
    EXPECT_LE(distance, std::max(a.size(), b.size()));
    EXPECT_GE(distance, std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
  }
}

TEST(Nearest, FindsTheTypedName) {
  const std::vector<std::string> names = {"cosine", "linear", "constant"};
  EXPECT_EQ(nearest("cosin", names), "cosine");
  EXPECT_EQ(nearest("lienar", names), "linear");
  EXPECT_EQ(nearest("constant", names), "constant");
  EXPECT_EQ(nearest("quadratic", names), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, DoesNotMindCaseAndDashes) {
  const std::vector<std::string> names = {"vocab-size", "min-frequency"};
  EXPECT_EQ(nearest("vocab_size", names), "vocab-size");
  EXPECT_EQ(nearest("VOCAB_SIZE", names), "vocab-size");
}

TEST(Nearest, CompletesABeginningThatOneNameHas) {
  const std::vector<std::string> names = {"precision", "device", "prompt-key", "prompt"};
  EXPECT_EQ(nearest("prec", names), "precision");
  EXPECT_EQ(nearest("pr", names), "");  // too short to say anything
  const std::vector<std::string> alike = {"tokenize-files", "tokenizer-kind"};
  EXPECT_EQ(nearest("token", alike), "");
}

}  // namespace
}  // namespace partita::internal
