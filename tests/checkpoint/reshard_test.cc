#include "partita/checkpoint/reshard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace partita {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<StoredPiece> pieces_at(const std::vector<int64_t>& cuts) {
  std::vector<StoredPiece> pieces;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) pieces.push_back({0, "", cuts[i], cuts[i + 1] - cuts[i], {}});
  return pieces;
}

TEST(PlanCopies, TakesFromEachRunItsPart) {
  const auto pieces = pieces_at({0, 10, 15, 40});
  EXPECT_THAT(plan_copies(pieces, 0, 40), ElementsAre(Copy{0, 0, 0, 10}, Copy{1, 0, 10, 5}, Copy{2, 0, 15, 25}));
  EXPECT_THAT(plan_copies(pieces, 12, 2), ElementsAre(Copy{1, 2, 0, 2}));
  EXPECT_THAT(plan_copies(pieces, 9, 7), ElementsAre(Copy{0, 9, 0, 1}, Copy{1, 0, 1, 5}, Copy{2, 0, 6, 1}));
  EXPECT_THAT(plan_copies(pieces, 10, 5), ElementsAre(Copy{1, 0, 0, 5}));
  EXPECT_TRUE(plan_copies(pieces, 12, 0).empty());
  EXPECT_TRUE(plan_copies({}, 0, 0).empty());
}

// Carrying a copy out on numbers must give the numbers wanted, each written once.
TEST(PlanCopies, FillsEveryElementOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const int64_t count = 1 + random() % 200;
    std::vector<int64_t> cuts = {0, count};
    for (uint32_t i = random() % 9; i > 0 && count > 1; --i) cuts.push_back(1 + random() % (count - 1));
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const auto pieces = pieces_at(cuts);
    const int64_t begin = random() % count, length = random() % (count - begin + 1);
    std::vector<int64_t> wanted(static_cast<size_t>(length), -1), expected(wanted.size());
    std::iota(expected.begin(), expected.end(), begin);
    for (const Copy& copy : plan_copies(pieces, begin, length))
      for (int64_t i = 0; i < copy.count; ++i) {
        ASSERT_LT(copy.from + i, pieces[static_cast<size_t>(copy.piece)].count);
        int64_t& place = wanted.at(static_cast<size_t>(copy.to + i));
        ASSERT_EQ(place, -1) << "written twice";
        place = pieces[static_cast<size_t>(copy.piece)].begin + copy.from + i;
      }
    ASSERT_EQ(wanted, expected);
  }
}

TEST(DescribeDifferences, NamesEveryKind) {
  const std::vector<StoredTensor> stored = {{{"same", {2, 3}, DType::fp32}, {}},
                                            {{"only.stored", {1}, DType::fp32}, {}},
                                            {{"adamw.m/same", {2, 3}, DType::fp32}, {}},
                                            {{"wider", {4, 3}, DType::fp32}, {}},
                                            {{"rounded", {2}, DType::bf16}, {}}};
  const std::vector<TensorInfo> wanted = {{"same", {2, 3}, DType::fp32},
                                          {"only.wanted", {}, DType::fp32},
                                          {"wider", {4, 5}, DType::fp32},
                                          {"rounded", {2}, DType::fp32}};
  const std::vector<std::string> none, moments = {"adamw."};
  EXPECT_EQ(describe_differences(stored, wanted, moments),
            "missing from it: only.wanted; not in this model: only.stored; of another shape: wider [4, 3] instead of "
            "[4, 5]; of another dtype: rounded bf16 instead of fp32");
  EXPECT_THAT(describe_differences(stored, wanted, none), HasSubstr("not in this model: adamw.m/same, only.stored"));
  EXPECT_EQ(describe_differences(std::span(stored).first(1), std::span(wanted).first(1), none), "");
  EXPECT_EQ(describe_differences(std::span(stored).subspan(2, 1), {}, moments), "");
}

TEST(DescribeDifferences, CutsLongLists) {
  std::vector<TensorInfo> wanted;
  for (int i = 0; i < 100; ++i) wanted.push_back({fmt::format("layers.{}", i), {}, DType::fp32});
  EXPECT_EQ(describe_differences({}, wanted, {}),
            "missing from it: layers.0, layers.1, layers.2, layers.3, layers.4, layers.5 and 94 more");
}

}  // namespace
}  // namespace partita
