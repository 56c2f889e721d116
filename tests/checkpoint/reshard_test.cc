#include "partita/checkpoint/reshard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "tests/support/boxes.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Pieces of one box each, sorted as in a manifest.
std::vector<StoredPiece> pieces_of(std::vector<Box> boxes) {
  std::ranges::sort(boxes, {}, [](const Box& box) { return std::pair(box.row, box.column); });
  std::vector<StoredPiece> pieces;
  for (const Box& box : boxes) pieces.push_back({0, "", {box}, {}});
  return pieces;
}

TEST(PlanCopies, TakesFromEachBoxItsPart) {
  const auto vector = pieces_of({{0, 1, 0, 10}, {0, 1, 10, 5}, {0, 1, 15, 25}});
  EXPECT_THAT(plan_copies(vector, {0, 1, 0, 40}),
              ElementsAre(Copy{0, 0, 0, 10}, Copy{1, 0, 10, 5}, Copy{2, 0, 15, 25}));
  EXPECT_THAT(plan_copies(vector, {0, 1, 12, 2}), ElementsAre(Copy{1, 2, 0, 2}));
  EXPECT_THAT(plan_copies(vector, {0, 1, 9, 7}), ElementsAre(Copy{0, 9, 0, 1}, Copy{1, 0, 1, 5}, Copy{2, 0, 6, 1}));
  EXPECT_TRUE(plan_copies(vector, {0, 1, 12, 0}).empty());
  EXPECT_TRUE(plan_copies({}, {}).empty());
  const auto halves = pieces_of({{0, 4, 0, 3}, {0, 4, 3, 3}});  // of columns
  EXPECT_THAT(plan_copies(halves, {1, 2, 3, 3}), ElementsAre(Copy{1, 3, 0, 6}));
  EXPECT_THAT(plan_copies(halves, {1, 1, 0, 6}), ElementsAre(Copy{0, 3, 0, 3}, Copy{1, 3, 3, 3}));
  // A flat run of version 1: element 4 to 11 of [3, 6].
  const std::vector<StoredPiece> run = {{0, "", {{0, 1, 4, 2}, {1, 1, 0, 6}}, {}}};
  EXPECT_THAT(plan_copies(run, {0, 2, 4, 2}), ElementsAre(Copy{0, 0, 0, 2}, Copy{0, 6, 2, 2}));
}

// Carrying a copy out on numbers must give the numbers wanted, each written once: from pieces of any tiling, those that
// are runs of several boxes as well, to the boxes of any other.
TEST(PlanCopies, FillsEveryElementOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const Box whole{.rows = 1 + test::random_up_to(random, 8), .columns = 1 + test::random_up_to(random, 8)};
    const auto elements = [&](const Box& box) {
      std::vector<int64_t> list;
      for (int64_t r = box.row; r < box.row + box.rows; ++r)
        for (int64_t c = box.column; c < box.column + box.columns; ++c) list.push_back(r * whole.columns + c);
      return list;
    };
    std::vector<StoredPiece> pieces;
    if (round % 2 == 0) {
      pieces = pieces_of(test::random_tiling(random, whole, test::kCuts[random() % std::size(test::kCuts)]));
    } else {
      for (int64_t begin = 0; begin < whole.count();) {
        const int64_t count = 1 + test::random_up_to(random, whole.count() - begin - 1);
        pieces.push_back({0, "", boxes_of_run(whole, begin, count), {}});
        begin += count;
      }
    }
    for (const Box& box : test::random_tiling(random, whole, test::kCuts[random() % std::size(test::kCuts)])) {
      std::vector<int64_t> wanted(static_cast<size_t>(box.count()), -1);
      for (const Copy& copy : plan_copies(pieces, box)) {
        std::vector<int64_t> stored;
        for (const Box& part : pieces[static_cast<size_t>(copy.piece)].boxes)
          std::ranges::copy(elements(part), std::back_inserter(stored));
        for (int64_t i = 0; i < copy.count; ++i) {
          int64_t& place = wanted.at(static_cast<size_t>(copy.to + i));
          ASSERT_EQ(place, -1) << "written twice";
          place = stored.at(static_cast<size_t>(copy.from + i));
        }
      }
      ASSERT_EQ(wanted, elements(box));
    }
  }
}

TEST(DescribeDifferences, NamesEveryKind) {
  const std::vector<StoredTensor> stored = {
      {{"same", {2, 3}, DType::fp32}, {}},         {{"only.stored", {1}, DType::fp32}, {}},
      {{"adamw.m/same", {2, 3}, DType::fp32}, {}}, {{"wider", {4, 3}, DType::fp32}, {}},
      {{"rounded", {2}, DType::bf16}, {}},         {{"counts", {2}, DType::int64}, {}}};
  const std::vector<TensorInfo> wanted = {{"same", {2, 3}, DType::fp32},
                                          {"only.wanted", {}, DType::fp32},
                                          {"wider", {4, 5}, DType::fp32},
                                          {"rounded", {2}, DType::fp32},
                                          {"counts", {2}, DType::int32}};
  const std::vector<std::string> none, moments = {"adamw."};
  EXPECT_EQ(describe_differences(stored, wanted, moments),
            "missing from it: only.wanted; not in this model: only.stored; of another shape: wider [4, 3] instead of "
            "[4, 5]; of another dtype: counts int64 instead of int32");
  EXPECT_THAT(describe_differences(stored, wanted, none), HasSubstr("not in this model: adamw.m/same, only.stored"));
  EXPECT_EQ(describe_differences(std::span(stored).first(1), std::span(wanted).first(1), none), "");
  EXPECT_EQ(describe_differences(std::span(stored).subspan(2, 1), {}, moments), "");
}

TEST(DescribeConversions, CountsEachPair) {
  const std::vector<StoredTensor> stored = {{{"a", {2}, DType::fp32}, {}},
                                            {{"b", {2}, DType::fp32}, {}},
                                            {{"c", {2}, DType::bf16}, {}},
                                            {{"d", {2}, DType::fp32}, {}},
                                            {{"e", {2}, DType::bf16}, {}}};
  const std::vector<TensorInfo> wanted = {{"a", {2}, DType::bf16},
                                          {"b", {2}, DType::bf16},
                                          {"c", {2}, DType::fp32},
                                          {"d", {2}, DType::fp32},
                                          {"e", {2}, DType::fp16}};
  EXPECT_THAT(
      describe_conversions(stored, wanted),
      testing::ElementsAre("2 tensors from fp32 to bf16, rounded to nearest", "1 tensor from bf16 to fp32, exactly",
                           "1 tensor from bf16 to fp16, rounded to nearest"));
  EXPECT_THAT(describe_conversions(stored, std::span(wanted).subspan(3, 1)), testing::IsEmpty());
  EXPECT_THAT(describe_conversions(std::span(stored).first(1), std::span(wanted).subspan(1)), testing::IsEmpty());
}

TEST(DescribeDifferences, CutsLongLists) {
  std::vector<TensorInfo> wanted;
  for (int i = 0; i < 100; ++i) wanted.push_back({fmt::format("layers.{}", i), {}, DType::fp32});
  EXPECT_EQ(describe_differences({}, wanted, {}),
            "missing from it: layers.0, layers.1, layers.2, layers.3, layers.4, layers.5 and 94 more");
}

}  // namespace
}  // namespace partita::internal
