#include "partita/comm/self_check.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace partita::internal {
namespace {

// As a job of any size adds them up: in the dtype itself, rounded after every addition, the worst that a backend may
// do.
TEST(SelfCheck, SumsAreExactInEveryDtypeAndSize) {
  for (int64_t element : {0, 1, 2, 3, 9'999}) {
    int64_t sum = 0;
    at::BFloat16 bfloat = 0;
    at::Half half = 0;
    uint8_t byte = 0;
    for (int64_t ranks = 1; ranks <= 2000; ++ranks) {
      const int64_t value = self_check_value(ranks - 1, element);
      sum += value;
      bfloat = bfloat + at::BFloat16(static_cast<float>(value));
      half = half + at::Half(static_cast<float>(value));
      byte = static_cast<uint8_t>(byte + value);
      ASSERT_EQ(static_cast<int64_t>(static_cast<float>(bfloat)), sum) << ranks << " ranks";
      ASSERT_EQ(static_cast<int64_t>(static_cast<float>(half)), sum) << ranks << " ranks";
      ASSERT_EQ(byte, sum) << ranks << " ranks";
    }
    EXPECT_EQ(sum, 96);  // not zero: a sum that was not made shows
  }
}

TEST(SelfCheck, NeighboursDiffer) {
  for (int64_t rank = 1; rank < 64; ++rank) EXPECT_NE(self_check_value(rank, 0), self_check_value(rank - 1, 0));
}

}  // namespace
}  // namespace partita::internal
