#include "partita/data/shuffled_samples.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

std::vector<size_t> take(ShuffledSamples& order, size_t batch, int count) {
  std::vector<size_t> all;
  for (int i = 0; i < count; ++i) {
    const std::vector<size_t> indices = *order.next(batch);
    all.insert(all.end(), indices.begin(), indices.end());
  }
  return all;
}

TEST(ShuffledSamples, HasEachSampleOnceAnEpoch) {
  for (const int64_t samples : {1, 2, 7, 100}) {
    ShuffledSamples order({.samples = samples});
    std::vector<size_t> all = take(order, 1, static_cast<int>(3 * samples)), epochs[3];
    for (size_t e = 0; e < 3; ++e) {
      const auto begin = all.begin() + static_cast<int64_t>(e) * samples;
      epochs[e].assign(begin, begin + samples);
    }
    if (samples == 100) {
      EXPECT_NE(epochs[0], epochs[1]);
      EXPECT_FALSE(std::ranges::is_sorted(epochs[0]));
    }
    std::vector<size_t> expected(static_cast<size_t>(samples));
    std::iota(expected.begin(), expected.end(), size_t{0});
    for (auto& epoch : epochs) {
      std::ranges::sort(epoch);
      EXPECT_EQ(epoch, expected);
    }
  }
}

// The global batches do not depend on the number of ranks, nor on where a run was interrupted.
TEST(ShuffledSamples, RanksDivideTheSameBatches) {
  ShuffledSamples one({.samples = 37, .seed = 5});
  const std::vector<size_t> whole = take(one, 12, 10);
  for (const int ranks : {2, 3, 4})
    for (const int64_t first : {0, 12, 60}) {
      const int batches = 10 - static_cast<int>(first / 12);
      std::vector<std::vector<size_t>> of_rank;
      const auto part = static_cast<size_t>(12 / ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        ShuffledSamples order({.samples = 37, .seed = 5, .rank = rank, .ranks = ranks, .first = first});
        (void)order.next(3);
        order.reset();
        of_rank.push_back(take(order, part, batches));
      }
      for (size_t i = 0; i < static_cast<size_t>(12 * batches); ++i)
        EXPECT_EQ(of_rank[i % 12 / part][i / 12 * part + i % part], whole[static_cast<size_t>(first) + i]);
    }
  ShuffledSamples other({.samples = 37, .seed = 6});
  EXPECT_NE(take(other, 12, 10), whole);
}

TEST(ShuffledSamples, RefusesWhatHasNoOrder) {
  EXPECT_THAT(error_message([] { ShuffledSamples({.samples = 0}); }), HasSubstr("0 samples, expected at least 1"));
  EXPECT_THAT(error_message([] { ShuffledSamples({.samples = 1, .rank = 2, .ranks = 2}); }),
              HasSubstr("rank 2 of 2, expected 0 to 1"));
  EXPECT_THAT(error_message([] { ShuffledSamples({.samples = 1, .first = -1}); }), HasSubstr("first is -1"));
}

}  // namespace
}  // namespace partita::internal
