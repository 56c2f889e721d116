#include "partita/shard/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "partita/nn/parts.h"
#include "partita/nn/split.h"

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
  EXPECT_EQ(middle[0].in_box, 0);
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
        EXPECT_EQ(s.in_box, next[p]);
        EXPECT_EQ(rank * layout.slice_count() + s.in_slice, layout.begin[p] + s.in_box);
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

// A layer with grouped queries, adapters and biases, as one rank of a tensor-parallel group holds it.
std::vector<ParameterSpec> layer_of(int64_t kv_heads, int64_t group, int rank, int ranks) {
  const int64_t heads = kv_heads * group, width = 7;
  const std::vector<ParameterPart> qkv = attention_parts(heads, kv_heads, 3);
  const int64_t rows = (heads + 2 * kv_heads) * 3;
  std::vector<ParameterSpec> list = {
      {.name = "norm", .shape = {width}},
      {.name = "qkv", .shape = {rows, width}, .decay = true, .split = Split::rows, .parts = qkv},
      {.name = "qkv.bias", .shape = {rows}, .split = Split::rows, .parts = qkv},
      {.name = "output",
       .shape = {width, heads * 3},
       .decay = true,
       .split = Split::columns,
       .parts = {{"output", width, group * 3, 3}}},
      {.name = "output.bias", .shape = {width}},
      {.name = "lora_a", .shape = {2, width}, .decay = true, .adapter = true},
      {.name = "norm2", .shape = {width}}};
  set_local_boxes(list, {.rank = rank, .ranks = ranks});
  return list;
}

// Over all ranks of both kinds: counted runs and primary segments hold each element of the model once, and shared runs
// are the elements that several tensor-parallel ranks hold.
TEST(TensorParallelLayout, CountsEveryElementOnce) {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    const int64_t kv_heads = 1 + static_cast<int64_t>(random() % 4), group = 1 + static_cast<int64_t>(random() % 3);
    const int tensor = 1 + static_cast<int>(random() % static_cast<unsigned>(kv_heads)), wide = tensor * 2;
    const int ranks =
        random() % 2 == 0 && wide <= kv_heads * group && (wide + kv_heads - 1) / kv_heads <= group ? wide : tensor;
    const int shards = 1 + static_cast<int>(random() % 3);
    std::map<std::string, std::vector<int>> held, primary;
    for (int rank = 0; rank < ranks; ++rank) {
      const Layout layout = make_layout(layer_of(kv_heads, group, rank, ranks), shards);
      std::vector<int> kind(static_cast<size_t>(layout.count));  // 1: counted, 2: shared
      for (int shard = 0; shard < shards; ++shard) {
        const int64_t begin = shard * layout.slice_count();
        for (const FlatRun& run : counted_runs(layout, shard))
          for (int64_t i = 0; i < run.count; ++i) kind[static_cast<size_t>(begin + run.begin + i)] |= 1;
      }
      for (const SharedRun& shared : shared_runs(layout)) {
        EXPECT_GT(shared.holders, 1);
        EXPECT_LE(shared.first_holder, rank);
        EXPECT_GT(shared.first_holder + shared.holders, rank);
        for (int64_t i = 0; i < shared.run.count; ++i) kind[static_cast<size_t>(shared.run.begin + i)] |= 2;
      }
      for (int shard = 0; shard < shards; ++shard)
        for (const Segment& s : slice_segments(layout, shard)) {
          const ParameterSpec& p = layout.parameters[static_cast<size_t>(s.parameter)];
          auto &all = held[p.name], &first = primary[p.name];
          all.resize(static_cast<size_t>(p.count()));
          first.resize(all.size());
          for (const Box& box : boxes_of_run(s.box, s.in_box, s.count))
            for (int64_t r = 0; r < box.rows; ++r)
              for (int64_t c = 0; c < box.columns; ++c) {
                const auto at = static_cast<size_t>(offset_in(whole_box(p.shape), {box.row + r, 1, box.column + c, 1}));
                ++all[at];
                first[at] += s.primary ? 1 : 0;
              }
          for (int64_t i = 0; i < s.count; ++i) {
            const int found = kind[static_cast<size_t>(shard * layout.slice_count() + s.in_slice + i)];
            EXPECT_EQ((found & 1) != 0, s.primary) << p.name;
            if (p.split == Split::none && ranks > 1) {
              EXPECT_TRUE((found & 2) != 0) << p.name;
            }
            if (!s.primary) {
              EXPECT_TRUE((found & 2) != 0) << p.name;
            }
          }
        }
    }
    for (const auto& [name, times] : primary) {
      EXPECT_THAT(times, testing::Each(1)) << name;
      EXPECT_THAT(held[name], testing::Each(testing::Ge(1))) << name;
    }
  }
}

// The holders of a run agree about it: the same elements of the model in the same order, whatever else they hold.
TEST(TensorParallelLayout, HoldersShareTheSameRuns) {
  for (const auto& [kv_heads, group, ranks] :
       {std::tuple(1, 3, 2), {2, 3, 4}, {1, 5, 4}, {3, 1, 3}, {2, 4, 3}, {1, 2, 2}}) {
    using Elements = std::vector<std::pair<std::string, int64_t>>;  // parameter, global index; of a run
    std::map<std::pair<int, int>, std::vector<std::vector<Elements>>> of_holders;
    for (int rank = 0; rank < ranks; ++rank) {
      const Layout layout = make_layout(layer_of(kv_heads, group, rank, ranks), 1);
      std::map<std::pair<int, int>, std::vector<Elements>> mine;
      for (const SharedRun& shared : shared_runs(layout)) {
        Elements elements(static_cast<size_t>(shared.run.count), {"padding", 0});
        for (const Segment& s : slice_segments(layout, 0))
          for (int64_t i = 0; i < s.count; ++i) {
            const int64_t at = s.in_slice + i - shared.run.begin;
            if (at < 0 || at >= shared.run.count) continue;
            const ParameterSpec& p = layout.parameters[static_cast<size_t>(s.parameter)];
            elements[static_cast<size_t>(at)] = {
                p.name, offset_in(whole_box(p.shape), boxes_of_run(s.box, s.in_box + i, 1).front())};
          }
        mine[{shared.first_holder, shared.holders}].push_back(elements);
      }
      for (auto& [holders, runs] : mine) of_holders[holders].push_back(std::move(runs));
    }
    for (const auto& [holders, runs] : of_holders) {
      EXPECT_EQ(std::ssize(runs), holders.second);
      EXPECT_THAT(runs, testing::Each(runs.front())) << kv_heads << " x " << group << " on " << ranks;
    }
  }
}

// Vectors that the whole group holds are neighbors, so that their sums are one collective.
TEST(TensorParallelLayout, SharedVectorsAreOneRun) {
  std::vector<ParameterSpec> vectors;
  for (const ParameterSpec& p : layer_of(2, 1, 0, 2))
    if (p.shape.size() < 2) vectors.push_back(p);
  const Layout layout = make_layout(vectors, 1);
  EXPECT_EQ(layout.parameters.back().name, "qkv.bias");
  EXPECT_THAT(shared_runs(layout), testing::ElementsAre(SharedRun{{0, 2 * kAlignment + 7}, 0, 2}));
  EXPECT_THAT(counted_runs(layout, 0), testing::ElementsAre(FlatRun{0, layout.count}));
  const Layout whole = make_layout(layer_of(2, 1, 0, 1), 1);
  EXPECT_TRUE(shared_runs(whole).empty());
  EXPECT_EQ(whole.parameters.back().name, "norm2");
}

}  // namespace
}  // namespace partita::internal
