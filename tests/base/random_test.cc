#include "partita/base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace partita::internal {
namespace {

// Known answers of Random123 (kat_vectors, philox 4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Hash, TellsNamesAndSeedsApart) {
  std::set<uint64_t> seen;
  for (uint64_t seed : {0, 1, 2})
    for (const char* name : {"", "a", "b", "ab", "ba", "layers.1.mlp.up.weight", "layers.11.mlp.up.weight"})
      EXPECT_TRUE(seen.insert(hash_of(seed, name)).second) << seed << ' ' << name;
}

TEST(Dropout, KeepsTheShareItSaysAndScalesByIt) {
  for (float p : {1.0F / 65536, 0.1F, 0.5F, 0.9F, 65535.0F / 65536}) {
    const uint32_t threshold = dropout_threshold(p);
    int64_t kept = 0;
    constexpr int64_t kElements = 400'000;
    for (int64_t e = 0; e < kElements; e += 8) {
      const PhiloxBlock block = dropout_block(dropout_key(1, 2), 3, 4, e / 8);
      for (int64_t lane = 0; lane < 8; ++lane) kept += dropout_keeps(block, e + lane, threshold) ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(kept) / kElements, 1 - p, 0.005) << p;
    EXPECT_NEAR(dropout_scale(p), 1 / (1 - static_cast<double>(threshold) / 65536), 1e-3 * dropout_scale(p)) << p;
  }
  EXPECT_EQ(dropout_threshold(0), 0U);
  EXPECT_EQ(dropout_scale(0), 1);
}

TEST(Dropout, EveryPartOfTheKeyMatters) {
  const PhiloxBlock block = dropout_block(dropout_key(1, 2), 3, 4, 5);
  EXPECT_NE(block, dropout_block(dropout_key(2, 2), 3, 4, 5));
  EXPECT_NE(block, dropout_block(dropout_key(1, 3), 3, 4, 5));
  EXPECT_NE(block, dropout_block(dropout_key(1, 2), 4, 4, 5));
  EXPECT_NE(block, dropout_block(dropout_key(1, 2), 3 + (int64_t{1} << 40), 4, 5));
  EXPECT_NE(block, dropout_block(dropout_key(1, 2), 3, 5, 5));
  EXPECT_NE(block, dropout_block(dropout_key(1, 2), 3, 4, 6));
}

TEST(Rounding, BitsAreUniformAndEveryPartOfTheKeyMatters) {
  const PhiloxKey key = rounding_key(1, hash_of("layers.0.mlp.up.weight"));
  const PhiloxBlock block = rounding_block(key, 2, 1, 5);
  EXPECT_NE(block, rounding_block(rounding_key(2, hash_of("layers.0.mlp.up.weight")), 2, 1, 5));
  EXPECT_NE(block, rounding_block(rounding_key(1, hash_of("layers.1.mlp.up.weight")), 2, 1, 5));
  EXPECT_NE(block, rounding_block(key, 3, 1, 5));
  EXPECT_NE(block, rounding_block(key, 2 + (int64_t{1} << 40), 1, 5));
  EXPECT_NE(block, rounding_block(key, 2, 0, 5));
  EXPECT_NE(block, rounding_block(key, 2, 1, 6));
  // Nor are they those that the same name and seed draw for the initial weights.
  EXPECT_NE(key, philox_key(hash_of(1, "layers.0.mlp.up.weight")));
  constexpr int64_t kElements = 400'000;
  double sum = 0, squares = 0;
  for (int64_t e = 0; e < kElements; ++e) {
    const double u = random16(rounding_block(key, 0, 0, e / 8), e) / 65536.0;
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kElements, 0.5, 0.002);
  EXPECT_NEAR(squares / kElements, 1.0 / 3, 0.002);
}

}  // namespace
}  // namespace partita::internal
