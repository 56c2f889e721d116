#include "partita/nn/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "partita/nn/parts.h"
#include "tests/support/boxes.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(LocalBoxes, CutEachPartByItself) {
  const ParameterSpec gqa{.name = "qkv", .shape = {16, 5}, .split = Split::rows, .parts = attention_parts(4, 2, 2)};
  EXPECT_THAT(local_boxes(gqa, 0, 2), ElementsAre(Box{0, 4, 0, 5}, Box{8, 2, 0, 5}, Box{12, 2, 0, 5}));
  EXPECT_THAT(local_boxes(gqa, 1, 2), ElementsAre(Box{4, 4, 0, 5}, Box{10, 2, 0, 5}, Box{14, 2, 0, 5}));
  const ParameterSpec bias{.name = "b", .shape = {16}, .split = Split::rows, .parts = attention_parts(4, 2, 2)};
  EXPECT_THAT(local_boxes(bias, 1, 2), ElementsAre(Box{0, 1, 4, 4}, Box{0, 1, 10, 2}, Box{0, 1, 14, 2}));
  const ParameterSpec output{.name = "o", .shape = {5, 8}, .split = Split::columns, .parts = {{"o", 5, 4}}};
  EXPECT_THAT(local_boxes(output, 1, 2), ElementsAre(Box{0, 5, 4, 4}));
  const ParameterSpec table{.name = "t", .shape = {7, 3}, .split = Split::rows};
  EXPECT_THAT(local_boxes(table, 0, 2), ElementsAre(Box{0, 3, 0, 3}));
  EXPECT_THAT(local_boxes(table, 1, 2), ElementsAre(Box{3, 4, 0, 3}));
  const ParameterSpec norm{.name = "n", .shape = {7}};
  EXPECT_THAT(local_boxes(norm, 4, 5), ElementsAre(Box{0, 1, 0, 7}));
}

// Heads of GPT-2 XL: nothing divides 25.
TEST(LocalBoxes, GiveWholeHeadsToEachRank) {
  const ParameterSpec qkv{
      .name = "qkv", .shape = {4800, 1600}, .split = Split::rows, .parts = attention_parts(25, 25, 64)};
  const auto heads = [&](int ranks) {
    std::vector<int64_t> list;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<Box> boxes = local_boxes(qkv, rank, ranks);
      for (const Box& box : boxes) EXPECT_EQ(box.rows, boxes[0].rows);
      EXPECT_EQ(boxes[0].rows % 64, 0);
      list.push_back(boxes[0].rows / 64);
    }
    return list;
  };
  EXPECT_THAT(heads(1), ElementsAre(25));
  EXPECT_THAT(heads(2), ElementsAre(12, 13));
  EXPECT_THAT(heads(4), ElementsAre(6, 6, 6, 7));
  EXPECT_THAT(heads(8), ElementsAre(3, 3, 3, 3, 3, 3, 3, 4));
}

TEST(LocalBoxes, NameWhatIsTooSmall) {
  const ParameterSpec qkv{.name = "layers.0.attention.qkv.weight",
                          .shape = {16, 5},
                          .split = Split::rows,
                          .parts = attention_parts(4, 2, 2)};
  EXPECT_EQ(error_message([&] { (void)local_boxes(qkv, 0, 3); }),
            "layers.0.attention.qkv.weight cannot be split over 3 ranks: its part attention.q has 8 rows, of which 4 "
            "stay together: use at most 2 ranks");
  const ParameterSpec down{.name = "layers.0.mlp.down.weight", .shape = {9, 3}, .split = Split::columns};
  EXPECT_THAT(error_message([&] { (void)local_boxes(down, 0, 4); }),
              AllOf(HasSubstr("layers.0.mlp.down.weight"), HasSubstr("3 columns"), HasSubstr("at most 3 ranks")));
  const ParameterSpec odd{.name = "odd", .shape = {9, 3}, .split = Split::rows, .parts = {{"a", 4}, {"b", 4}}};
  EXPECT_THAT(error_message([&] { (void)local_boxes(odd, 0, 2); }), HasSubstr("odd: 8 rows in parts, 9 in all"));
  const ParameterSpec uneven{.name = "uneven", .shape = {9, 3}, .split = Split::rows, .parts = {{"a", 9, 2}}};
  EXPECT_THAT(error_message([&] { (void)local_boxes(uneven, 0, 2); }), HasSubstr("a of 9 in multiples of 2"));
  const ParameterSpec vector{.name = "v", .shape = {9}, .split = Split::columns};
  EXPECT_THAT(error_message([&] { (void)local_boxes(vector, 0, 2); }), HasSubstr("v has no columns to split"));
  EXPECT_THROW((void)local_boxes(down, 3, 3), Error);
}

// The ranks' boxes hold each element once, cut no quantum, and differ by at most one.
TEST(LocalBoxes, TileTheParameter) {
  std::mt19937 random(21);
  for (int round = 0; round < 400; ++round) {
    const int ranks = 1 + static_cast<int>(test::random_up_to(random, 8));
    ParameterSpec spec{.name = "w", .split = round % 2 == 0 ? Split::rows : Split::columns};
    int64_t rows = 0;
    const auto extent = [&](int64_t quantum) { return quantum * (ranks + test::random_up_to(random, 9)); };
    const int64_t columns_quantum = 1 + test::random_up_to(random, 4), columns = extent(columns_quantum);
    for (int64_t p = test::random_up_to(random, 3); p >= 0; --p) {
      const int64_t quantum = 1 + test::random_up_to(random, 4);
      const bool by_rows = spec.split == Split::rows;
      spec.parts.push_back({"part", by_rows ? extent(quantum) : 1 + quantum, by_rows ? quantum : columns_quantum});
      rows += spec.parts.back().rows;
    }
    const bool vector = spec.split == Split::rows && round % 4 == 0;
    spec.shape = vector ? std::vector<int64_t>{rows} : std::vector<int64_t>{rows, columns};
    const Box whole = whole_box(spec.shape);
    std::vector<int> held(static_cast<size_t>(whole.count()));
    std::vector<std::vector<int64_t>> quanta(spec.parts.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<Box> boxes = local_boxes(spec, rank, ranks);
      ASSERT_EQ(boxes.size(), spec.parts.size());
      int64_t part_begin = 0;
      for (size_t p = 0; p < boxes.size(); ++p) {
        const Box& box = boxes[p];
        ASSERT_TRUE(contains(whole, box));
        for (int64_t r = box.row; r < box.row + box.rows; ++r)
          for (int64_t c = box.column; c < box.column + box.columns; ++c)
            ++held[static_cast<size_t>(r * whole.columns + c)];
        const bool by_rows = spec.split == Split::rows && !vector;
        const int64_t begin = by_rows ? box.row : box.column, size = by_rows ? box.rows : box.columns;
        const int64_t origin = spec.split == Split::rows ? part_begin : 0;
        EXPECT_EQ((begin - origin) % spec.parts[p].quantum, 0);
        EXPECT_EQ(size % spec.parts[p].quantum, 0);
        quanta[p].push_back(size / spec.parts[p].quantum);
        part_begin += spec.parts[p].rows;
      }
    }
    EXPECT_TRUE(std::ranges::all_of(held, [](int times) { return times == 1; })) << "round " << round;
    for (const auto& of_part : quanta) {
      const auto [least, most] = std::ranges::minmax(of_part);
      EXPECT_GE(least, 1);
      EXPECT_LE(most - least, 1);
    }
  }
}

}  // namespace
}  // namespace partita::internal
