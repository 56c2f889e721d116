#include "partita/comm/pipeline_edges.h"

#include <gtest/gtest.h>

#include <set>

namespace partita::internal {
namespace {

// Ranks that go through their pairs in this order, each blocking until the other is there, come to the end in rounds of
// pairs without a common rank: at most three.
TEST(PipelineEdges, EveryRankMeetsItsNeighborsInThreeRounds) {
  for (int count = 1; count <= 17; ++count) {
    const auto pairs = neighbor_rounds(count);
    std::set<std::pair<int, int>> expected;
    for (int i = 0; i < count; ++i) {
      const int next = (i + 1) % count;
      if (next != i) expected.emplace(std::min(i, next), std::max(i, next));
    }
    EXPECT_EQ(std::set(pairs.begin(), pairs.end()), expected);
    EXPECT_EQ(pairs.size(), expected.size());
    std::vector<int> done(static_cast<size_t>(count), 0);  // pairs of each rank so far
    int rounds = 0;
    for (const auto& [a, b] : pairs) {
      int& first = done[static_cast<size_t>(a)];
      int& second = done[static_cast<size_t>(b)];
      first = second = std::max(first, second) + 1;
      rounds = std::max(rounds, first);
    }
    EXPECT_LE(rounds, 3) << count;
  }
}

}  // namespace
}  // namespace partita::internal
