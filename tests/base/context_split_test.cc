#include "partita/base/context_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace partita {
namespace {

std::vector<int64_t> positions(const ContextSplit& split, int64_t length) {
  std::vector<int64_t> all;
  for (int64_t token = 0; token < length; ++token) all.push_back(split.position(token, length));
  return all;
}

TEST(ContextSplit, RanksHaveAnEarlyAndALatePiece) {
  EXPECT_EQ(positions({}, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(positions({.rank = 0, .ranks = 2}, 6), (std::vector<int64_t>{0, 1, 2, 9, 10, 11}));
  EXPECT_EQ(positions({.rank = 1, .ranks = 2}, 6), (std::vector<int64_t>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(positions({.rank = 1, .ranks = 3}, 2), (std::vector<int64_t>{1, 4}));
}

// Every position is on one rank; a rank's positions ascend, in runs of consecutive ones; and in causal attention all
// ranks multiply the same number of queries and keys.
TEST(ContextSplit, DividesPositionsAndWorkEqually) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int64_t length = 0; length <= 14; length += ranks > 1 ? 2 : 1) {
      std::vector<int64_t> all;
      for (int rank = 0; rank < ranks; ++rank) {
        const ContextSplit split{.rank = rank, .ranks = ranks};
        const std::vector<int64_t> own = positions(split, length);
        int64_t keys = 0;
        for (size_t i = 0; i < own.size(); ++i) {
          keys += own[i] + 1;
          const auto token = static_cast<int64_t>(i);
          EXPECT_EQ(own[i], token + split.shift(token < split.run(length) ? 0 : 1, length));
          if (i == 0) continue;
          EXPECT_GT(own[i], own[i - 1]);
          EXPECT_TRUE(own[i] == own[i - 1] + 1 || token == split.run(length)) << token;
        }
        EXPECT_EQ(2 * keys, length * (ranks * length + 1)) << ranks << " ranks, length " << length;
        all.insert(all.end(), own.begin(), own.end());
      }
      std::ranges::sort(all);
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<int64_t>(i));
    }
}

}  // namespace
}  // namespace partita
