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

std::vector<Box> boxes_of(const ParameterSpec& spec, int rank, int ranks) {
  std::vector<Box> boxes;
  for (const LocalBox& local : local_boxes(spec, rank, ranks)) boxes.push_back(local.box);
  return boxes;
}

TEST(LocalBoxes, CutEachPartByItself) {
  const ParameterSpec gqa{.name = "qkv", .shape = {16, 5}, .split = Split::rows, .parts = attention_parts(4, 2, 2)};
  EXPECT_THAT(boxes_of(gqa, 0, 2), ElementsAre(Box{0, 4, 0, 5}, Box{8, 2, 0, 5}, Box{12, 2, 0, 5}));
  EXPECT_THAT(boxes_of(gqa, 1, 2), ElementsAre(Box{4, 4, 0, 5}, Box{10, 2, 0, 5}, Box{14, 2, 0, 5}));
  const ParameterSpec bias{.name = "b", .shape = {16}, .split = Split::rows, .parts = attention_parts(4, 2, 2)};
  EXPECT_THAT(boxes_of(bias, 1, 2), ElementsAre(Box{0, 1, 4, 4}, Box{0, 1, 10, 2}, Box{0, 1, 14, 2}));
  const ParameterSpec output{.name = "o", .shape = {5, 8}, .split = Split::columns, .parts = {{"o", 5, 4}}};
  EXPECT_THAT(boxes_of(output, 1, 2), ElementsAre(Box{0, 5, 4, 4}));
  const ParameterSpec table{.name = "t", .shape = {7, 3}, .split = Split::rows};
  EXPECT_THAT(boxes_of(table, 0, 2), ElementsAre(Box{0, 3, 0, 3}));
  EXPECT_THAT(boxes_of(table, 1, 2), ElementsAre(Box{3, 4, 0, 3}));
  const ParameterSpec norm{.name = "n", .shape = {7}};
  EXPECT_THAT(boxes_of(norm, 4, 5), ElementsAre(Box{0, 1, 0, 7}));
}

// Heads of GPT-2 XL: nothing divides 25.
TEST(LocalBoxes, GiveWholeHeadsToEachRank) {
  const ParameterSpec qkv{
      .name = "qkv", .shape = {4800, 1600}, .split = Split::rows, .parts = attention_parts(25, 25, 64)};
  const auto heads = [&](int ranks) {
    std::vector<int64_t> list;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<Box> boxes = boxes_of(qkv, rank, ranks);
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
  EXPECT_EQ(error_message([&] { (void)local_boxes(qkv, 0, 5); }),
            "layers.0.attention.qkv.weight cannot be split over 5 ranks: its part attention.q has 8 rows, of which 2 "
            "stay together: use at most 4 ranks");
  const ParameterSpec down{.name = "layers.0.mlp.down.weight", .shape = {9, 3}, .split = Split::columns};
  EXPECT_THAT(error_message([&] { (void)local_boxes(down, 0, 4); }),
              AllOf(HasSubstr("layers.0.mlp.down.weight"), HasSubstr("3 columns"), HasSubstr("at most 3 ranks")));
  const ParameterSpec odd{.name = "odd", .shape = {9, 3}, .split = Split::rows, .parts = {{"a", 4}, {"b", 4}}};
  EXPECT_THAT(error_message([&] { (void)local_boxes(odd, 0, 2); }), HasSubstr("odd: 8 rows in parts, 9 in all"));
  const ParameterSpec vector{.name = "v", .shape = {9}, .split = Split::columns};
  EXPECT_THAT(error_message([&] { (void)local_boxes(vector, 0, 2); }), HasSubstr("v has no columns to split"));
  EXPECT_THROW((void)local_boxes(down, 3, 3), Error);
}

// A vocabulary of 300 rows in quanta of 128: the last rank has the rest.
TEST(LocalBoxes, LastQuantumMayBeSmaller) {
  const ParameterSpec table{.name = "t", .shape = {300, 3}, .split = Split::rows, .parts = {{"rows", 300, 128}}};
  EXPECT_THAT(boxes_of(table, 0, 2), ElementsAre(Box{0, 128, 0, 3}));
  EXPECT_THAT(boxes_of(table, 1, 2), ElementsAre(Box{128, 172, 0, 3}));
  EXPECT_THAT(boxes_of(table, 2, 3), ElementsAre(Box{256, 44, 0, 3}));
}

// Six query heads of width 2 that read two key/value heads, over four ranks: the ranks of a key/value head hold all of
// it, and share the query heads that read it.
TEST(LocalBoxes, ShareKeyValueHeads) {
  const ParameterSpec qkv{.name = "qkv", .shape = {20, 5}, .split = Split::rows, .parts = attention_parts(6, 2, 2)};
  const auto at = [&](int rank) { return local_boxes(qkv, rank, 4); };
  const auto shared = [](int64_t row, int first, bool primary) {
    return LocalBox{.box = {row, 2, 0, 5}, .first_holder = first, .holders = 2, .primary = primary};
  };
  EXPECT_THAT(at(0), ElementsAre(LocalBox{{0, 2, 0, 5}, 0, 1}, shared(12, 0, true), shared(16, 0, true)));
  EXPECT_THAT(at(1), ElementsAre(LocalBox{{2, 4, 0, 5}, 1, 1}, shared(12, 0, false), shared(16, 0, false)));
  EXPECT_THAT(at(2), ElementsAre(LocalBox{{6, 2, 0, 5}, 2, 1}, shared(14, 2, true), shared(18, 2, true)));
  EXPECT_THAT(at(3), ElementsAre(LocalBox{{8, 4, 0, 5}, 3, 1}, shared(14, 2, false), shared(18, 2, false)));
  const ParameterSpec output{.name = "o", .shape = {5, 12}, .split = Split::columns, .parts = {{"o", 5, 6, 2}}};
  EXPECT_THAT(boxes_of(output, 0, 4), ElementsAre(Box{0, 5, 0, 2}));  // as the rows of q
  EXPECT_THAT(boxes_of(output, 1, 4), ElementsAre(Box{0, 5, 2, 4}));
  EXPECT_THAT(boxes_of(output, 3, 4), ElementsAre(Box{0, 5, 8, 4}));
}

// Any number of query and key/value heads: each query head is on one rank, together with its key/value head, and the
// holders of a box agree about each other.
TEST(LocalBoxes, KeepQueriesWithTheirKeys) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const int64_t kv = 1 + test::random_up_to(random, 4), group = 1 + test::random_up_to(random, 4), width = 2;
    const int ranks = 1 + static_cast<int>(test::random_up_to(random, static_cast<int64_t>(kv * group) - 1));
    const ParameterSpec qkv{.name = "qkv",
                            .shape = {(kv * group + 2 * kv) * width, 3},
                            .split = Split::rows,
                            .parts = attention_parts(kv * group, kv, width)};
    std::vector<std::vector<LocalBox>> all;
    try {
      for (int rank = 0; rank < ranks; ++rank) all.push_back(local_boxes(qkv, rank, ranks));
    } catch (const Error&) {  // more ranks on a key/value head than it has query heads
      EXPECT_GT(ranks, kv);
      EXPECT_GT((ranks + kv - 1) / kv, group);
      continue;
    }
    int64_t next_head = 0;
    std::vector<int> primaries(static_cast<size_t>(kv));
    for (int rank = 0; rank < ranks; ++rank) {
      const LocalBox &q = all[rank][0], &k = all[rank][1], &v = all[rank][2];
      EXPECT_EQ(q.box.row, next_head * width);
      EXPECT_EQ(q.holders, 1);
      EXPECT_GE(q.box.rows, width);
      const int64_t first_kv = (k.box.row - kv * group * width) / width, heads = k.box.rows / width;
      EXPECT_EQ(v.box.row - k.box.row, kv * width);
      EXPECT_GE(next_head, first_kv * group);
      next_head += q.box.rows / width;
      EXPECT_LE(next_head, (first_kv + heads) * group);
      EXPECT_EQ(q.box.rows / width % heads, 0);  // as many query heads for each
      for (int other = k.first_holder; other < k.first_holder + k.holders; ++other)
        EXPECT_EQ(all[static_cast<size_t>(other)][1].box, k.box);
      for (int64_t h = first_kv; h < first_kv + heads; ++h) primaries[static_cast<size_t>(h)] += k.primary ? 1 : 0;
    }
    EXPECT_EQ(next_head, kv * group);
    EXPECT_TRUE(std::ranges::all_of(primaries, [](int times) { return times == 1; }));
  }
}

TEST(LocalShape, IsThatOfTheStackedBoxes) {
  std::vector<ParameterSpec> specs = {
      {.name = "qkv", .shape = {20, 5}, .split = Split::rows, .parts = attention_parts(6, 2, 2)},
      {.name = "bias", .shape = {20}, .split = Split::rows, .parts = attention_parts(6, 2, 2)},
      {.name = "output", .shape = {5, 12}, .split = Split::columns, .parts = {{"o", 5, 6, 2}}},
      {.name = "norm", .shape = {5}}};
  const auto shapes = [&] {
    std::vector<std::vector<int64_t>> list;
    for (const ParameterSpec& p : specs) list.push_back(p.local_shape());
    return list;
  };
  set_local_boxes(specs, {.rank = 0, .ranks = 1});
  EXPECT_THAT(shapes(), ElementsAre(ElementsAre(20, 5), ElementsAre(20), ElementsAre(5, 12), ElementsAre(5)));
  set_local_boxes(specs, {.rank = 1, .ranks = 4});
  EXPECT_THAT(shapes(), ElementsAre(ElementsAre(8, 5), ElementsAre(8), ElementsAre(5, 4), ElementsAre(5)));
  EXPECT_EQ(specs[0].local_count(), 40);
  EXPECT_EQ(specs[2].local_count(), 20);
  EXPECT_FALSE(specs[0].shared());
  EXPECT_TRUE(specs[3].shared());
}

// Pieces cover all rows once; this rank's own is its part of the stream.
TEST(TensorSplitRows, PiecesCoverAllRows) {
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (int rank = 0; rank < ranks; ++rank)
      for (int64_t rows = 1; rows <= 40; ++rows) {
        const TensorSplit split{.rank = rank, .ranks = ranks, .sequence = true, .least_piece = 4};
        const int64_t quantum = 1 + rows % 3;
        const TensorSplit::Pieces pieces = split.pieces(rows, quantum);
        std::vector<int> covered(static_cast<size_t>(rows), 0);
        std::vector<RowRun> all = pieces.others;
        all.push_back(pieces.own);
        for (const RowRun& run : all)
          for (int64_t r = run.begin; r < run.begin + run.count; ++r) ++covered[static_cast<size_t>(r)];
        EXPECT_EQ(covered, std::vector<int>(static_cast<size_t>(rows), 1));
        if (ranks > 1 && rows % ranks == 0 && rows / ranks >= 4 && rows / ranks % quantum == 0)
          EXPECT_EQ(pieces.own, (RowRun{split.first_row(rows), split.stream_rows(rows)}));
        else
          EXPECT_TRUE(pieces.others.empty());
      }
}

TEST(TensorSplitRows, AreEqualPartsWhereRanksDivideThem) {
  const TensorSplit on{.rank = 1, .ranks = 3, .sequence = true}, off{.rank = 1, .ranks = 3};
  EXPECT_EQ(on.stream_rows(12), 4);
  EXPECT_EQ(on.first_row(12), 4);
  EXPECT_EQ(on.stream_rows(13), 13);
  EXPECT_EQ(on.first_row(13), 0);
  EXPECT_EQ(off.stream_rows(12), 12);
  EXPECT_EQ(TensorSplit{}.stream_rows(12), 12);
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
      const std::vector<Box> boxes = boxes_of(spec, rank, ranks);
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

// The rows whose terms a rank adds to gradients of what all ranks have: each row is one rank's.
TEST(TensorSplitRows, RowsOfSharedGradientsAreEachOneRanks) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int64_t rows : {0, 1, 2, 3, 7, 12}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const RowRun part = TensorSplit{.rank = rank, .ranks = ranks}.part(rows);
        EXPECT_EQ(part.begin, next);
        next += part.count;
      }
      EXPECT_EQ(next, rows);
    }
  const TensorSplit second{.rank = 1, .ranks = 3};
  EXPECT_EQ(second.part(12), (RowRun{4, 4}));
  EXPECT_EQ(second.part(2), (RowRun{0, 1}));
  EXPECT_EQ((TensorSplit{.rank = 0, .ranks = 3}).part(2).count, 0);
}

// The same runs with and without sequence parallelism, of which a rank then has its own.
TEST(TensorSplitRows, StreamPartsAreCutAlike) {
  const TensorSplit on{.rank = 1, .ranks = 3, .sequence = true}, off{.rank = 1, .ranks = 3};
  EXPECT_EQ(on.stream_parts(12), (std::vector<RowRun>{{4, 4}}));
  EXPECT_EQ(off.stream_parts(12), (std::vector<RowRun>{{0, 4}, {4, 4}, {8, 4}}));
  EXPECT_EQ(on.stream_parts(13), (std::vector<RowRun>{{0, 13}}));
  EXPECT_EQ(off.stream_parts(13), (std::vector<RowRun>{{0, 13}}));
  EXPECT_EQ(TensorSplit{}.stream_parts(12), (std::vector<RowRun>{{0, 12}}));
}

}  // namespace
}  // namespace partita::internal
