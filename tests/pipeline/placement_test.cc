#include "partita/pipeline/placement.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

using Kind = StagePlacement::Kind;

TEST(StagePlacement, Loop) {
  const StagePlacement loop({PipelineSchedule::interleaved, 4, 2, 1});
  EXPECT_EQ(loop.stages(), 8);
  EXPECT_EQ(loop.stage(1, 0), 1);
  EXPECT_EQ(loop.stage(1, 1), 5);
  EXPECT_EQ(loop.embedding_rank(), 0);
  EXPECT_EQ(loop.head_rank(), 3);
  for (int stage = 0; stage < 7; ++stage) EXPECT_TRUE(loop.handed_over(stage)) << stage;
  EXPECT_FALSE(loop.handed_over(7)) << "the head's output stays";
}

TEST(StagePlacement, V) {
  const StagePlacement v({PipelineSchedule::zbv, 4, 2, 1});
  EXPECT_EQ(v.stage(1, 0), 1);
  EXPECT_EQ(v.stage(1, 1), 6);
  EXPECT_EQ(v.stage(0, 1), 7);
  EXPECT_EQ(v.embedding_rank(), 0);
  EXPECT_EQ(v.head_rank(), 0) << "embedding and head share a table without messages";
  EXPECT_TRUE(v.handed_over(2));
  EXPECT_FALSE(v.handed_over(3)) << "the turn";
  EXPECT_TRUE(v.handed_over(4));
  EXPECT_EQ(StagePlacement({PipelineSchedule::dual_pipe_v, 4, 2, 1}).head_rank(), 0);
}

TEST(StagePlacement, MoreThanTwoChunksOfAVRunBackAndForth) {
  const StagePlacement v(Kind::v, 3, 3);
  EXPECT_EQ(v.stage(0, 2), 6);
  EXPECT_EQ(v.head_rank(), 2);
  EXPECT_FALSE(v.handed_over(2));
  EXPECT_FALSE(v.handed_over(5));
}

TEST(StagePlacement, OneRankSendsNothing) {
  const StagePlacement alone(Kind::loop, 1, 3);
  for (int stage = 0; stage < 3; ++stage) EXPECT_FALSE(alone.handed_over(stage));
}

TEST(StagePlacement, EveryStageIsOnOneRank) {
  for (const Kind kind : {Kind::loop, Kind::v})
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int chunks = 1; chunks <= 4; ++chunks) {
        const StagePlacement placement(kind, ranks, chunks);
        std::vector<int> seen(static_cast<size_t>(placement.stages()));
        for (int rank = 0; rank < ranks; ++rank)
          for (int chunk = 0; chunk < chunks; ++chunk) {
            const int stage = placement.stage(rank, chunk);
            ++seen.at(static_cast<size_t>(stage));
            EXPECT_EQ(placement.rank(stage), rank);
            EXPECT_EQ(placement.chunk(stage), chunk);
          }
        EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
      }
}

}  // namespace
}  // namespace partita::internal
