#include "partita/ops/matmul_tuning.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(FastestCandidate, HasTheSmallestMedian) {
  // One slow call, or one fast one, decides nothing.
  EXPECT_EQ(fastest_candidate({"p", {"a", "b", "c"}, {{5, 5, 5}, {4, 90, 4}, {1, 6, 6}}}), 1U);
  EXPECT_EQ(fastest_candidate({"p", {"a", "b"}, {{2, 3, 1}, {2}}}), 0U);  // the first of equals
  EXPECT_EQ(fastest_candidate({"p", {"a", "b", "c"}, {{}, {3}, {2}}}), 2U);
  EXPECT_EQ(fastest_candidate({"p", {"a", "b"}, {{7}, {}}}), 0U);
  EXPECT_EQ(fastest_candidate({"p", {"a", "b"}, {{}, {}}}), 0U);
  EXPECT_EQ(fastest_candidate({"p", {}, {}}), 0U);
}

TEST(MedianOf, IsTheUpperOneOfAnEvenNumber) {
  EXPECT_EQ(median_of({3}), 3);
  EXPECT_EQ(median_of({9, 1, 5}), 5);
  EXPECT_EQ(median_of({9, 1}), 9);
  EXPECT_EQ(median_of({4, 3, 2, 1}), 3);
}

TEST(MatmulTrial, HasNothingToChooseOnTheCpu) {
  EXPECT_EQ(matmul_library(at::kCPU), "");
  EXPECT_TRUE(take_matmul_times().empty());
}

}  // namespace
}  // namespace partita::internal
