#include "partita/comm/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

TEST(MeshLayout, TensorIsFastestThenDataThenPipeline) {
  const MeshLayout layout({.data = 2, .tensor = 3, .pipeline = 2}, 12);
  EXPECT_EQ(layout.position(0), (MeshLayout::Position{0, 0, 0}));
  EXPECT_EQ(layout.position(1), (MeshLayout::Position{0, 1, 0}));
  EXPECT_EQ(layout.position(3), (MeshLayout::Position{1, 0, 0}));
  EXPECT_EQ(layout.position(11), (MeshLayout::Position{1, 2, 1}));
  EXPECT_EQ(layout.tensor_group(4), (std::vector{3, 4, 5}));
  EXPECT_EQ(layout.data_group(4), (std::vector{1, 4}));
  EXPECT_EQ(layout.pipeline_group(4), (std::vector{4, 10}));
}

TEST(MeshLayout, ContextIsBetweenTensorAndData) {
  const MeshLayout layout({.data = 2, .tensor = 2, .pipeline = 2, .context = 3}, 24);
  EXPECT_EQ(layout.position(9), (MeshLayout::Position{.data = 1, .tensor = 1, .pipeline = 0, .context = 1}));
  EXPECT_EQ(layout.rank({.data = 1, .tensor = 0, .pipeline = 1, .context = 2}), 22);
  EXPECT_EQ(layout.context_group(9), (std::vector{7, 9, 11}));
  EXPECT_EQ(layout.data_group(9), (std::vector{3, 9}));
  EXPECT_EQ(layout.data_context_group(9), (std::vector{1, 3, 5, 7, 9, 11}));
}

// For all sizes: positions and ranks are inverse, and the groups of each coordinate divide the ranks.
TEST(MeshLayout, GroupsDivideTheRanks) {
  for (int data = 1; data <= 4; ++data)
    for (int tensor = 1; tensor <= 4; ++tensor)
      for (int pipeline = 1; pipeline <= 4; ++pipeline) {
        const int context = 1 + (data + tensor + pipeline) % 3, ranks = data * tensor * pipeline * context;
        const MeshLayout layout({data, tensor, pipeline, context}, ranks);
        for (auto group_of : {&MeshLayout::data_group, &MeshLayout::context_group, &MeshLayout::data_context_group,
                              &MeshLayout::tensor_group, &MeshLayout::pipeline_group}) {
          for (int r = 0; r < ranks; ++r) {
            ASSERT_EQ(layout.rank(layout.position(r)), r);
            const std::vector<int> group = (layout.*group_of)(r);
            ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
            ASSERT_EQ(std::count(group.begin(), group.end(), r), 1);
            for (int member : group) ASSERT_EQ((layout.*group_of)(member), group);
          }
        }
      }
}

// Neighbors in the tensor group hold the same key/value head where there are fewer heads than ranks.
TEST(MeshLayout, RanksShareKeyValueHeads) {
  const auto groups = [](int tensor, int kv_heads) {
    const MeshLayout layout({.data = 2, .tensor = tensor, .kv_heads = kv_heads}, 2 * tensor);
    std::vector<std::vector<int>> all;
    for (int rank = 0; rank < 2 * tensor; ++rank) all.push_back(layout.key_value_group(rank));
    return all;
  };
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(groups(2, 1), (Groups{{0, 1}, {0, 1}, {2, 3}, {2, 3}}));
  EXPECT_EQ(groups(3, 2), (Groups{{0, 1}, {0, 1}, {2}, {3, 4}, {3, 4}, {5}}));
  EXPECT_EQ(groups(2, 2), (Groups{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(groups(2, 0), (Groups{{0}, {1}, {2}, {3}}));
}

TEST(MeshLayout, ErrorsNameTheSizes) {
  const auto message = [](MeshLayout::Sizes sizes, int ranks) -> std::string {
    try {
      const MeshLayout layout(sizes, ranks);
      return "no error";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(
      message({.data = 2, .tensor = 2, .pipeline = 1}, 8),
      "mesh: data 2 x context 1 x tensor 2 x pipeline 1 = 4 ranks, but the job has 8: set data to 4 or start 4 ranks");
  EXPECT_EQ(message({.data = 1, .tensor = 1, .pipeline = 1, .context = 3}, 4),
            "mesh: data 1 x context 3 x tensor 1 x pipeline 1 = 3 ranks, but the job has 4: start 3 ranks, or another "
            "multiple of 3");
  EXPECT_THAT(message({.data = 0, .tensor = 3, .pipeline = 1}, 4), testing::HasSubstr("at least 1"));
  EXPECT_THAT(message({.data = 65536, .tensor = 65536, .pipeline = 1}, 1), testing::HasSubstr("4294967296 ranks"));
}

}  // namespace
}  // namespace partita::internal
