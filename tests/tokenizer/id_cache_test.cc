#include "partita/tokenizer/id_cache.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

namespace partita::internal {
namespace {

using Ids = std::vector<TokenId>;
constexpr size_t kMega = size_t{1} << 20;

// Looks a piece up as encoders do, with `behind` after it in the text.
class Cache {
 public:
  explicit Cache(size_t most_bytes) : cache(most_bytes) {}

  // The cached ids, and caches `ids` if there are none.
  std::optional<Ids> get_or_put(const std::string& piece, const Ids& ids, const std::string& behind = "") {
    const std::string text = piece + behind;
    cache.tidy();
    const auto lookup = cache.start(text.data(), piece.size(), text.size());
    bool made = false;
    std::optional<Ids> spanned, copied;
    if (const auto* quick = IdCache::quick_find(lookup, piece.size())) {
      spanned.emplace(cache.ids_of(*quick).begin(), cache.ids_of(*quick).end());
      copied.emplace(quick->count + IdCache::kInlineIds);
      copied->resize(static_cast<size_t>(cache.copy_ids(*quick, copied->data()) - copied->data()));
    }
    const auto found = cache.find_or_add(std::string_view(text).substr(0, piece.size()), lookup, [&](auto asked) {
      EXPECT_EQ(asked, piece);
      made = true;
      return std::span(ids);
    });
    const Ids result(found.begin(), found.end());
    if (copied) {
      EXPECT_FALSE(made);
      EXPECT_EQ(copied, result);
      EXPECT_EQ(spanned, result);
    }
    return made ? std::nullopt : std::optional(result);
  }
  bool knows(const std::string& piece) { return get_or_put(piece, {}).has_value(); }

  IdCache cache;
};

Ids ids_of(const std::string& piece, size_t count) {
  return Ids(count, static_cast<TokenId>(std::hash<std::string>{}(piece) % 100'000));
}

TEST(IdCache, KeysHoldShortPiecesAndTheirLengths) {
  IdCache cache(kMega);
  const auto key_of = [&](const std::string& piece, size_t readable) {
    return cache.start((piece + std::string(16, 'x')).data(), piece.size(), readable).key;
  };
  for (const size_t readable : {0, 16}) {
    EXPECT_EQ(key_of(" the", readable), (IdCache::Key{0x65687420, uint64_t{4} << 56}));
    EXPECT_EQ(key_of("12345678", readable), (IdCache::Key{0x3837363534333231, uint64_t{8} << 56}));
    EXPECT_EQ(key_of("123456789abcdef", readable), (IdCache::Key{0x3837363534333231, 0x0f66656463626139}));
    EXPECT_EQ(key_of("\xFF", readable), (IdCache::Key{0xFF, uint64_t{1} << 56}));
    EXPECT_EQ(key_of({'a', 0}, readable), (IdCache::Key{'a', uint64_t{2} << 56}));
  }
}

// Lengths around all limits, numbers of ids on both sides of kInlineIds, whatever stands behind a piece.
TEST(IdCache, PiecesOfEveryLength) {
  Cache cache(kMega);
  for (const bool again : {false, true}) {
    for (size_t length = 1; length <= IdCache::kLongest + 2; ++length) {
      for (const char last : {'a', '\0', '\xFF'}) {
        const std::string piece = std::string(length - 1, 'a') + last;
        const Ids ids = ids_of(piece, (length + static_cast<unsigned char>(last)) % 9);
        const auto found = cache.get_or_put(piece, ids, std::string(again ? 20 : length % 3, 'a'));
        ASSERT_EQ(found.has_value(), again && length <= IdCache::kLongest) << length;
        if (found) {
          ASSERT_EQ(*found, ids) << length;
        }
      }
    }
  }
}

TEST(IdCache, AnswersWithWhatWasPutOrNothing) {
  std::mt19937 random(9);
  Cache cache(kMega);
  int64_t found_again = 0, lookups = 0;
  for (int i = 0; i < 600'000; ++i) {  // more than it holds: what is forgotten may be put again
    const auto number = random() % (i % 3 == 0 ? 1'000 : i % 3 == 1 ? 5'000 : 5'000'000);
    std::string piece = std::to_string(number * 2654435761U % 10'000'000'000).substr(0, 1 + number % 15);
    if (number % 8 == 0) piece.insert(0, 8 + number % 90, 'x');
    const Ids ids = ids_of(piece, std::hash<std::string>{}(piece) % 7);
    const auto found = cache.get_or_put(piece, ids);
    ++lookups;
    if (!found) continue;
    ++found_again;
    ASSERT_EQ(*found, ids) << piece;
  }
  EXPECT_GT(found_again, lookups / 2);
}

// Two texts with one hash of libstdc++ (MurmurHash64A): the second word makes up for the difference of the first.
TEST(IdCache, LongPiecesOfEqualHashes) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995, kSeed = 0xc70f6907;
  uint64_t inverse = kFactor;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kFactor * inverse;
  const auto folded = [](uint64_t value) { return value ^ value >> 47; };  // its own inverse
  const auto mixed = [&](uint64_t word) { return folded(word * kFactor) * kFactor; };
  const auto after = [&](uint64_t word) { return (kSeed ^ 16 * kFactor ^ mixed(word)) * kFactor; };
  const auto text_of = [](uint64_t first, uint64_t second) {
    std::string text(16, '\0');
    std::memcpy(text.data(), &first, 8);
    std::memcpy(text.data() + 8, &second, 8);
    return text;
  };
  const uint64_t second_mixed = after(1) ^ after(3) ^ mixed(2);
  const std::string a = text_of(1, 2), b = text_of(3, folded(second_mixed * inverse) * inverse);
  ASSERT_NE(a, b);
  if (std::hash<std::string_view>{}(a) != std::hash<std::string_view>{}(b)) GTEST_SKIP() << "another standard library";
  Cache cache(kMega);
  EXPECT_EQ(cache.get_or_put(a, {1}), std::nullopt);
  EXPECT_EQ(cache.get_or_put(b, {2, 3}), std::nullopt);
  EXPECT_EQ(cache.get_or_put(a, {}), Ids({1}));
  EXPECT_EQ(cache.get_or_put(b, {}), Ids({2, 3}));
}

// Of a full table the least recently used pieces go, whether short or long.
TEST(IdCache, CommonPiecesStay) {
  for (const size_t padding : {1, 30}) {
    Cache cache(4 * kMega);
    int missed = 0;
    for (int i = 0; i < 400'000; ++i) {
      // One of a thousand that come again, then one that never does.
      missed += cache.get_or_put(std::string(padding, 'c') + std::to_string(i % 1000), {1}) ? 0 : 1;
      cache.get_or_put("n" + std::to_string(i), {1, 2, 3});
    }
    EXPECT_LT(missed, 1'500) << padding;
  }
}

// A full arena is forgotten as a whole; ids within entries stay.
TEST(IdCache, AFullArenaIsForgotten) {
  constexpr size_t kWords = kMega / 4 / sizeof(TokenId);
  const auto kept = [&](size_t bytes, size_t ids) {
    Cache cache(kMega);
    const auto piece = [&](size_t i) {
      const std::string number = std::to_string(i);
      return number + std::string(bytes - number.size(), 'x');
    };
    cache.get_or_put("stays", {1, 2, 3});
    size_t count = 0;
    for (; count < 100'000 && (count == 0 || cache.knows(piece(0))); ++count) {
      EXPECT_EQ(cache.get_or_put(piece(count), ids_of(piece(count), ids)), std::nullopt);
    }
    EXPECT_TRUE(cache.knows("stays"));
    EXPECT_EQ(cache.get_or_put(piece(count - 1), {}), ids_of(piece(count - 1), ids));
    EXPECT_FALSE(cache.knows(piece(count - 2)));
    return count - 1;
  };
  EXPECT_EQ(kept(8, 100), kWords / 100);
  EXPECT_EQ(kept(IdCache::kLongest, 1), kWords / (IdCache::kLongest / 4 + 1));
  EXPECT_EQ(kept(IdCache::kLongest - 1, 200), kWords / (IdCache::kLongest / 4 + 200));
}

TEST(IdCache, MoreIdsThanTheArenaAreNotCached) {
  Cache cache(kMega);
  const size_t most = kMega / 4 / sizeof(TokenId);
  EXPECT_EQ(cache.get_or_put("a", Ids(most, 7)), std::nullopt);
  EXPECT_EQ(cache.get_or_put("b", Ids(most + 1, 7)), std::nullopt);
  EXPECT_EQ(cache.get_or_put("a", {}), Ids(most, 7));
  EXPECT_FALSE(cache.knows("b"));
}

// Whatever is put, memory is bounded, and most of what is allowed is used.
TEST(IdCache, MemoryStaysBelowTheLimit) {
  for (const size_t limit : {size_t{0}, IdCache::kLeastBytes, kMega, 3 * kMega, 16 * kMega + 5}) {
    const size_t most = std::max(limit, IdCache::kLeastBytes);
    for (const size_t ids : {1, 2, 40}) {
      Cache cache(limit);
      size_t before = cache.cache.bytes();
      EXPECT_LE(before, IdCache::kLeastBytes / 2);
      for (int i = 0; i < 300'000; ++i) {
        cache.get_or_put((ids == 2 ? "a piece that is long " : "p") + std::to_string(i), Ids(ids, i));
        const size_t now = cache.cache.bytes();
        ASSERT_LE(now, most);
        if (ids == 1 && now != before) {  // both tables, while it grows
          ASSERT_LE(before + now, most);
        }
        before = now;
      }
      // Half for the table, if not rounded down to a power of two, and a quarter for the arena.
      EXPECT_GE(before, most / 4 + (ids == 1 ? 0 : most / 8)) << limit << " " << ids;
    }
  }
}

}  // namespace
}  // namespace partita::internal
