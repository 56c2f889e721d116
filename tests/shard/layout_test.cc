#include "partita/shard/layout.h"

#include <gtest/gtest.h>

#include <random>

namespace partita::internal {
namespace {

ParameterSpec vector_of(int64_t count, bool decay = false) {
  return {.name = "p" + std::to_string(count), .shape = {count}, .decay = decay};
}

TEST(Layout, PutsDecayedFirstAtAlignedPlaces) {
  const Layout layout = make_layout({vector_of(3), vector_of(200, true), vector_of(128, true), vector_of(1)}, 3);
  ASSERT_EQ(layout.parameters.size(), 4U);
  EXPECT_EQ(layout.parameters[0].count(), 200);
  EXPECT_EQ(layout.parameters[1].count(), 128);
  EXPECT_EQ(layout.begin, (std::vector<int64_t>{0, 256, 384, 512}));
  EXPECT_EQ(layout.count, 768);  // 513 rounded up to 3 x 128
  EXPECT_EQ(layout.slice_count(), 256);
  const std::vector<Segment> middle = slice_segments(layout, 1);
  ASSERT_EQ(middle.size(), 2U);
  EXPECT_EQ(middle[0].parameter, 1);
  EXPECT_EQ(middle[0].in_parameter, 0);
  EXPECT_EQ(middle[0].in_slice, 0);
  EXPECT_EQ(middle[0].count, 128);
  EXPECT_EQ(middle[1].parameter, 2);
  EXPECT_EQ(middle[1].in_slice, 128);
  EXPECT_EQ(middle[1].count, 3);
}

TEST(Layout, OfNothing) {
  const Layout layout = make_layout({}, 4);
  EXPECT_EQ(layout.count, 0);
  EXPECT_TRUE(slice_segments(layout, 3).empty());
}

// Every element of every parameter lies in exactly one slice, in order, for sizes of 0, 1, less than the ranks and
// everything that does not divide.
TEST(Layout, SlicesHoldEveryElementOnce) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int ranks = 1 + static_cast<int>(random() % 9);
    std::vector<ParameterSpec> parameters;
    for (unsigned k = random() % 7; k > 0; --k)
      parameters.push_back(vector_of(static_cast<int64_t>(random() % (random() % 2 ? 5 : 2000)), random() % 2 == 0));
    const Layout layout = make_layout(parameters, ranks);
    EXPECT_EQ(layout.count % (ranks * kAlignment), 0);
    std::vector<int64_t> next(layout.parameters.size(), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t free_from = 0;
      for (const Segment& s : slice_segments(layout, rank)) {
        const auto p = static_cast<size_t>(s.parameter);
        EXPECT_GT(s.count, 0);
        EXPECT_EQ(s.in_parameter, next[p]);
        EXPECT_EQ(rank * layout.slice_count() + s.in_slice, layout.begin[p] + s.in_parameter);
        EXPECT_GE(s.in_slice, free_from);
        EXPECT_LE(s.in_slice + s.count, layout.slice_count());
        free_from = s.in_slice + s.count;
        next[p] += s.count;
      }
    }
    for (size_t p = 0; p < layout.parameters.size(); ++p) {
      EXPECT_EQ(next[p], layout.parameters[p].count());
      EXPECT_EQ(layout.begin[p] % kAlignment, 0);
    }
  }
}

}  // namespace
}  // namespace partita::internal
