#include "partita/tokenizer/bpe/pretoken_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace partita::internal {
namespace {

TEST(PretokenCache, WhatIsFoundIsWhatWasPut) {
  std::mt19937 random(12);
  PretokenCache cache;
  int64_t found = 0;
  for (int i = 0; i < 600'000; ++i) {  // more than it holds, and some again and again
    const auto number = random() % (i % 2 == 0 ? 5'000 : 2'000'000);
    const std::string text = "pretoken number " + std::to_string(number);
    const std::vector<TokenId> ids(1 + number % 5, static_cast<TokenId>(number));
    const uint64_t hash = PretokenCache::hash_of(text);
    if (const auto known = cache.find(text, hash)) {
      ++found;
      ASSERT_EQ(std::vector<TokenId>(known->begin(), known->end()), ids) << text;
      continue;
    }
    cache.insert(text, hash, ids);
    const auto known = cache.find(text, hash);
    ASSERT_TRUE(known.has_value());
    ASSERT_EQ(std::vector<TokenId>(known->begin(), known->end()), ids) << text;
  }
  EXPECT_GT(found, 250'000);
}

}  // namespace
}  // namespace partita::internal
