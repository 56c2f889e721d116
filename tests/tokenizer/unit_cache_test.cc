#include "partita/tokenizer/bpe/unit_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "partita/tokenizer/bpe/char_joins.h"

namespace partita::internal {
namespace {

// Keys are the same if and only if the units are, wherever in a text they stand.
TEST(UnitCache, KeysTellUnitsApart) {
  std::mt19937 draw(9);
  const auto unit = [&] {
    std::string text;
    for (size_t n = 1 + draw() % UnitCache::kShort; n > 0; --n) text += static_cast<char>(draw() % 3);
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string a = unit(), b = unit();
    const std::string text = std::string(draw() % 4, 'x') + a + std::string(draw() % 20, 'y') + b;
    const size_t second = text.size() - b.size(), first = text.find_first_not_of('x');
    const auto key_a = UnitCache::key_of(text, first, a.size()), key_b = UnitCache::key_of(text, second, b.size());
    ASSERT_EQ(key_a == key_b, a == b);
  }
}

// A value that depends on the unit alone, so that any answer can be checked.
std::vector<TokenId> ids_of(std::string_view unit) {
  return std::vector<TokenId>(static_cast<size_t>(unit[0]) % 4, static_cast<TokenId>(unit.size() + 10));
}

TEST(UnitCache, AnswersWithWhatWasPutOrNothing) {
  std::mt19937 draw(8);
  UnitCache cache;
  int64_t found_short = 0, found_long = 0;
  for (int i = 0; i < 400000; ++i) {
    std::string unit;
    for (size_t n = 1 + draw() % (i % 3 == 0 ? 9 : 40); n > 0; --n) unit += static_cast<char>('a' + draw() % 3);
    const std::vector<TokenId> ids = ids_of(unit);
    if (unit.size() <= UnitCache::kShort) {
      const auto key = UnitCache::key_of(unit, 0, unit.size());
      if (const auto* known = cache.find(key)) {
        ASSERT_EQ(UnitCache::count(*known), ids.size());
        ASSERT_TRUE(std::equal(ids.begin(), ids.end(), known->begin()));
        ++found_short;
      } else {
        cache.insert(key, ids);
        ASSERT_NE(cache.find(key), nullptr);
      }
    }
    if (const auto known = cache.find_long(unit)) {
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), known->begin(), known->end()));
      ++found_long;
    } else {
      const auto put = cache.insert_long(unit, ids);
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), put.begin(), put.end()));
    }
  }
  EXPECT_GT(found_short, 50000);
  EXPECT_GT(found_long, 50000);
}

// Long units, and those of many ids: what the arena holds is forgotten before it grows without end.
TEST(UnitCache, TheArenaIsBounded) {
  const auto most_kept = [](size_t bytes, size_t ids) {
    UnitCache cache;
    const auto unit = [&](size_t i) {
      std::string text = std::to_string(i);
      return text.append(bytes - text.size(), 'x');
    };
    for (size_t i = 0; i < 200'000; ++i) {
      cache.insert_long(unit(i), std::vector<TokenId>(ids, 7));
      if (!cache.find_long(unit(0))) return i;
    }
    return size_t{200'000};
  };
  EXPECT_EQ(most_kept(UnitCache::kLongest, 1), (size_t{4} << 20) / UnitCache::kLongest);
  EXPECT_EQ(most_kept(8, 384), (size_t{1} << 20) / 384);
  EXPECT_EQ(most_kept(8, 1), size_t{1} << 17);
}

// Units cover the text, and are cut exactly between ASCII neighbours that no token has, and never inside a token.
TEST(CharJoins, CutsWhereNoTokenCrosses) {
  std::mt19937 draw(7);
  const std::vector<std::string> alphabet = {"a", "b", "c", " ", "é", "中", "🦙", "\x80", "\n"};
  for (int round = 0; round < 100; ++round) {
    CharJoins joins;
    std::vector<std::string> tokens;
    for (size_t n = draw() % 12; n > 0; --n) {
      std::string token;
      for (size_t c = draw() % 4; c > 0; --c) token += alphabet[draw() % alphabet.size()];
      joins.add_token(token);
      tokens.push_back(token);
    }
    joins.finish();
    std::string text;
    std::vector<size_t> starts;
    for (size_t n = draw() % 400; n > 0; --n) {
      starts.push_back(text.size());
      text += alphabet[draw() % alphabet.size()];
    }
    std::vector<size_t> cuts = {0};
    joins.for_each_unit(text, [&](size_t begin, size_t end) {
      ASSERT_EQ(begin, cuts.back());
      ASSERT_LT(begin, end);
      cuts.push_back(end);
    });
    ASSERT_EQ(cuts.back(), text.size());
    for (size_t i = 1; i < starts.size(); ++i) {
      const bool cut = std::find(cuts.begin(), cuts.end(), starts[i]) != cuts.end();
      const std::string pair =
          text.substr(starts[i - 1], (i + 1 < starts.size() ? starts[i + 1] : text.size()) - starts[i - 1]);
      bool in_token = false;
      for (const std::string& token : tokens) in_token |= token.find(pair) != std::string::npos;
      ASSERT_FALSE(in_token && cut) << pair;
      if (!in_token && pair.size() == 2 && static_cast<unsigned char>(pair[0]) < 128 &&
          static_cast<unsigned char>(pair[1]) < 128) {
        ASSERT_TRUE(cut) << pair;
      }
    }
  }
}

}  // namespace
}  // namespace partita::internal
