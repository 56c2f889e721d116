#include "partita/base/rank_text.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(RankText, NamesTheRankOnce) {
  EXPECT_EQ(of_rank(3, "disk full"), "rank 3: disk full");
  EXPECT_EQ(of_rank(0, of_rank(3, "disk full")), "rank 3: disk full");
  EXPECT_EQ(of_rank(12, of_rank(12, "")), "rank 12: ");
  // These do not say which rank has failed.
  for (const char* text : {"rank 3 ended", "rank : x", "rank x: y", "rank 3", "rank 3:", "ranks 1: x", ""})
    EXPECT_EQ(of_rank(1, text), std::string("rank 1: ") + text);
}

}  // namespace
}  // namespace partita::internal
