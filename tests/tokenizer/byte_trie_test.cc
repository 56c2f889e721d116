#include "partita/tokenizer/unigram/byte_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace partita::internal {
namespace {

// The prefixes of `text` that are in the trie, by length.
std::map<size_t, int32_t> prefixes(const ByteTrie& trie, std::string_view text) {
  std::map<size_t, int32_t> found;
  uint32_t node = ByteTrie::kRoot;
  for (size_t i = 0; i < text.size() && trie.step(node, text[i]); ++i) {
    if (trie.value(node) >= 0) found[i + 1] = trie.value(node);
  }
  return found;
}

TEST(ByteTrie, FindsExactlyItsStrings) {
  std::mt19937 draw(4);
  for (const size_t count : {0, 1, 2, 7, 300, 5003}) {
    for (const unsigned letters : {2U, 5U, 256U}) {
      std::map<std::string, int32_t> strings;
      for (size_t i = 0; i < count; ++i) {
        std::string text;
        for (size_t n = 1 + draw() % 9; n > 0; --n) text += static_cast<char>(draw() % letters);
        strings.emplace(text, static_cast<int32_t>(i));
      }
      std::vector<ByteTrie::String> list;
      for (const auto& [text, value] : strings) list.push_back({text, value});
      std::shuffle(list.begin(), list.end(), draw);
      const ByteTrie trie(list);
      EXPECT_EQ(trie.empty(), strings.empty());
      for (int i = 0; i < 2000; ++i) {
        std::string text;
        for (size_t n = draw() % 14; n > 0; --n) text += static_cast<char>(draw() % letters);
        if (i % 2 == 0 && !strings.empty()) text = std::next(strings.begin(), draw() % strings.size())->first + text;
        std::map<size_t, int32_t> expected;
        for (size_t size = 1; size <= text.size(); ++size) {
          const auto found = strings.find(text.substr(0, size));
          if (found != strings.end()) expected[size] = found->second;
        }
        ASSERT_EQ(prefixes(trie, text), expected);
      }
    }
  }
}

TEST(ByteTrie, LongStrings) {
  const std::string text(100000, 'a');
  const ByteTrie trie({{text, 3}, {std::string_view(text).substr(0, 99999), 4}});
  EXPECT_EQ(prefixes(trie, text + "b"), (std::map<size_t, int32_t>{{99999, 4}, {100000, 3}}));
}

}  // namespace
}  // namespace partita::internal
