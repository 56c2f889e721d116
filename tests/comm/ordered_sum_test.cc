#include "partita/comm/ordered_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using enum c10::ScalarType;

template <class To, class From>
std::vector<To> reduce(Reduce kind, c10::ScalarType to, c10::ScalarType from,
                       const std::vector<std::vector<From>>& rows) {
  std::vector<To> out(rows[0].size());
  std::vector<const void*> pointers;
  for (const auto& row : rows) pointers.push_back(row.data());
  reduce_rows(kind, to, out.data(), from, pointers, static_cast<int64_t>(out.size()));
  return out;
}

// Longer than a block of the implementation, and not a multiple of anything.
TEST(ReduceRows, AddsInOrderOverManyBlocks) {
  constexpr size_t kCount = 10'007;
  std::vector<std::vector<float>> rows(5, std::vector<float>(kCount));
  std::vector<float> expected(kCount);
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t i = 0; i < kCount; ++i) {
      rows[r][i] = std::sin(static_cast<float>(r * kCount + i)) * 1e3F;
      expected[i] = r == 0 ? rows[r][i] : expected[i] + rows[r][i];
    }
  EXPECT_EQ((reduce<float>(Reduce::sum, Float, Float, rows)), expected);
}

TEST(ReduceRows, RoundsHalfPrecisionOnceToNearestEven) {
  const auto b = [](float x) { return c10::BFloat16(x); };
  const std::vector<std::vector<c10::BFloat16>> rows = {{b(1), b(1)}, {b(0x1p-8F), b(0x1p-8F)}, {b(0x1p-8F), b(0)}};
  const auto half = reduce<c10::BFloat16>(Reduce::sum, BFloat16, BFloat16, rows);
  EXPECT_EQ(static_cast<float>(half[0]), 1 + 0x1p-7F);  // one by one it would stay 1
  EXPECT_EQ(static_cast<float>(half[1]), 1.F);          // half way: to even
  const auto wide = reduce<float>(Reduce::sum, Float, BFloat16, rows);
  EXPECT_EQ(wide, (std::vector<float>{1 + 0x1p-7F, 1 + 0x1p-8F}));
  const auto fp16 = reduce<float, c10::Half>(Reduce::sum, Float, Half, {{c10::Half(60000.F)}, {c10::Half(60000.F)}});
  EXPECT_EQ(fp16[0], 120'000.F);  // beyond the range of fp16
}

TEST(ReduceRows, KeepsTheSignOfZeroAndInfinities) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto sum = reduce<float, float>(Reduce::sum, Float, Float, {{-0.F, infinity}, {-0.F, -infinity}});
  EXPECT_TRUE(std::signbit(sum[0]));
  EXPECT_TRUE(std::isnan(sum[1]));
}

TEST(ReduceRows, IntegersWrapAround) {
  EXPECT_EQ((reduce<uint8_t, uint8_t>(Reduce::sum, Byte, Byte, {{200, 1}, {100, 2}})), (std::vector<uint8_t>{44, 3}));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((reduce<int64_t, int64_t>(Reduce::sum, Long, Long, {{most}, {1}})), std::vector{-most - 1});
}

TEST(ReduceRows, MaximumIsNanIfAnyIs) {
  const float nan = std::nanf("");
  const auto largest = reduce<float, float>(Reduce::max, Float, Float, {{nan, 1, -3}, {1, nan, -2}, {2, 2, -5}});
  EXPECT_TRUE(std::isnan(largest[0]));
  EXPECT_TRUE(std::isnan(largest[1]));
  EXPECT_EQ(largest[2], -2);
}

TEST(ReduceRows, OneRowIsCopiedAndMayBeTheResult) {
  std::array<double, 3> row = {1, 2, 3};
  const void* rows[] = {row.data(), row.data()};
  reduce_rows(Reduce::sum, Double, row.data(), Double, rows, 3);
  EXPECT_EQ(row, (std::array<double, 3>{2, 4, 6}));
  reduce_rows(Reduce::sum, Double, row.data(), Double, std::span(rows, 1), 0);
  EXPECT_EQ(row, (std::array<double, 3>{2, 4, 6}));
}

TEST(CheckReducible, NamesBothTypes) {
  EXPECT_NO_THROW(check_reducible("dp.all_reduce", Float, Half));
  for (const auto& [to, from] : {std::pair{Half, Float}, {Double, Float}, {Bool, Bool}, {BFloat16, Half}}) {
    try {
      check_reducible("dp.all_reduce", to, from);
      ADD_FAILURE() << c10::toString(to);
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(std::string("from ") + c10::toString(from) + " to " + c10::toString(to)), text.npos) << text;
    }
  }
}

}  // namespace
}  // namespace partita::internal
