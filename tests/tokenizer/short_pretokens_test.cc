#include "partita/tokenizer/bpe/short_pretokens.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_map>

namespace partita::internal {
namespace {

ShortPretokens::Key key_of(std::string text) {
  const size_t bytes = text.size();
  text.resize(16, 'x');  // what stands behind does not matter
  return ShortPretokens::key_of(text.data(), bytes);
}

std::vector<TokenId> ids_of(const std::string& text) {  // 1 to 15, of its bytes
  std::vector<TokenId> ids;
  for (size_t i = 0; i < text.size() && (i == 0 || i < static_cast<size_t>(text[0]) % 16); ++i) ids.push_back(text[i]);
  return ids;
}

TEST(ShortPretokens, KeysTellLengthsApart) {
  EXPECT_FALSE(key_of("a") == key_of(std::string("a\0", 2)));
  EXPECT_FALSE(key_of("12345678") == key_of("1234567"));
  EXPECT_FALSE(key_of("123456789012345") == key_of("123456789012344"));
  EXPECT_TRUE(key_of("123456789") == key_of("123456789"));
}

TEST(ShortPretokens, WhatIsFoundIsWhatWasPut) {
  // More than it holds: what is forgotten may be put again.
  std::mt19937 random(9);
  ShortPretokens cache;
  std::unordered_map<std::string, int> seen;
  int64_t found_again = 0, lookups = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    const auto number = random() % (i % 3 == 0 ? 2'000 : i % 3 == 1 ? 100'000 : 5'000'000);
    const std::string text = std::to_string(number * 2654435761U % 10'000'000'000).substr(0, 1 + number % 15);
    if (i % 1000 == 0) cache.tidy();
    const auto key = key_of(text);
    auto* set = cache.set_of(key);
    const auto& candidate = ShortPretokens::candidate(set, key);
    const bool in_front = candidate.key == key;
    const auto* entry = ShortPretokens::find(set, key);
    if (in_front) {
      ASSERT_NE(entry, nullptr);
    }
    ++lookups;
    if (entry != nullptr) {
      ++found_again;
      const auto expected = ids_of(text);
      ASSERT_EQ(std::vector<TokenId>(cache.ids_of(*entry), cache.ids_of(*entry) + entry->count), expected) << text;
    } else {
      cache.insert(set, key, ids_of(text));
      ASSERT_TRUE(ShortPretokens::candidate(set, key).key == key);
    }
  }
  EXPECT_GT(found_again, lookups / 2);
}

TEST(ShortPretokens, CommonOnesStay) {
  ShortPretokens cache;
  int missed = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    if (i % 1000 == 0) cache.tidy();
    // One of a thousand that come again, then one that never does.
    for (const std::string& text : {"c" + std::to_string(i % 1000), "n" + std::to_string(i)}) {
      const auto key = key_of(text);
      auto* set = cache.set_of(key);
      if (ShortPretokens::find(set, key) != nullptr) continue;
      cache.insert(set, key, std::vector<TokenId>{1});
      missed += text[0] == 'c' ? 1 : 0;
    }
  }
  EXPECT_LT(missed, 3'000);
}

}  // namespace
}  // namespace partita::internal
