#include "partita/checkpoint/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/checkpoint/saving.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
ElementComparison compared(DType dtype, const std::vector<T>& a, const std::vector<T>& b, double tolerance = 0) {
  ElementComparison found(tolerance);
  found.add(dtype, std::as_bytes(std::span(a)), dtype, std::as_bytes(std::span(b)));
  return found;
}

ElementComparison compared(const std::vector<float>& a, const std::vector<float>& b, double tolerance = 0) {
  return compared(DType::fp32, a, b, tolerance);
}

TEST(ElementComparison, CountsAndMeasures) {
  const ElementComparison found = compared({1, 2, -4, 0, 5}, {1, 2.5, -3, 0, 5});
  EXPECT_EQ(found.differing(), 2);
  EXPECT_EQ(found.absolute(), 1);
  EXPECT_EQ(found.relative(), 0.25);  // 1 of 4, and 0.5 of 2.5
  EXPECT_EQ(compared({}, {}).differing(), 0);
  EXPECT_EQ(compared({1, 2}, {1, 2}).absolute(), 0);
}

TEST(ElementComparison, WithoutToleranceBitsCount) {
  EXPECT_EQ(compared({0.F}, {-0.F}).differing(), 1);
  EXPECT_EQ(compared({0.F}, {-0.F}).absolute(), 0);
  EXPECT_EQ(compared({kNan}, {kNan}).differing(), 0);
  EXPECT_EQ(compared({kNan}, {-kNan}).differing(), 1);
  EXPECT_EQ(compared({kNan}, {-kNan}, 0.1).differing(), 0);
  EXPECT_EQ(compared({0.F}, {-0.F}, 0.1).differing(), 0);
}

TEST(ElementComparison, ToleranceIsRelative) {
  EXPECT_EQ(compared({100, 1e-8F}, {101, 1.5e-8F}, 0.0099).differing(), 2);
  EXPECT_EQ(compared({100, 1e-8F}, {101, 1.5e-8F}, 0.01).differing(), 1);
  EXPECT_EQ(compared({100, 1e-8F}, {101, 1.5e-8F}, 0.34).differing(), 0);
  EXPECT_EQ(compared({0}, {1e-30F}, 0.99).differing(), 1);
}

TEST(ElementComparison, WhatIsNotFiniteIsInfinitelyFar) {
  for (const auto& [a, b] : std::vector<std::pair<float, float>>{
           {kInfinity, 1}, {1, -kInfinity}, {kInfinity, -kInfinity}, {kNan, 1}, {1, kNan}, {kInfinity, kNan}}) {
    const ElementComparison found = compared({a}, {b}, 1);
    EXPECT_EQ(found.differing(), 1) << a << " " << b;
    EXPECT_EQ(found.absolute(), kInfinity) << a << " " << b;
    EXPECT_EQ(found.relative(), kInfinity) << a << " " << b;
  }
  EXPECT_EQ(compared({kInfinity}, {kInfinity}).differing(), 0);
}

TEST(ElementComparison, OfIntegers) {
  const ElementComparison found =
      compared<int64_t>(DType::int64, {1, 1'000'000'000'000, -5}, {1, 1'000'000'000'001, -7});
  EXPECT_EQ(found.differing(), 2);
  EXPECT_EQ(found.absolute(), 2);
  EXPECT_EQ(compared<int64_t>(DType::int64, {(int64_t{1} << 62) + 1}, {int64_t{1} << 62}).differing(), 1);
  EXPECT_EQ(compared<int32_t>(DType::int32, {3, -2}, {3, 2}).absolute(), 4);
  EXPECT_EQ(compared<uint8_t>(DType::uint8, {0, 255}, {255, 255}).absolute(), 255);
}

TEST(ElementComparison, OfTwoDtypesComparesValues) {
  const std::vector<float> a = {1, 1.00390625F, kNan};  // 1 + 2^-8 lies between two bf16 numbers
  const std::vector<uint16_t> b = {0x3F80, 0x3F80, 0x7FC0};
  ElementComparison found(0);
  found.add(DType::fp32, std::as_bytes(std::span(a)), DType::bf16, std::as_bytes(std::span(b)));
  EXPECT_EQ(found.differing(), 1);
  EXPECT_EQ(found.absolute(), 0.00390625);
}

// Over odd lengths, in which the element that differs is anywhere.
TEST(ElementComparison, SeesEachElement) {
  std::vector<float> a(4099, 1), b = a;
  for (const size_t i : {0U, 1U, 2047U, 2048U, 2049U, 4095U, 4096U, 4098U}) {
    b[i] = 2;
    EXPECT_EQ(compared(a, b).differing(), 1) << i;
    b[i] = 1;
  }
}

// Compares whatever two layouts of the same values.
TEST(CompareCheckpoints, LayoutsDoNotMatter) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 3);
  const fs::path first = save(root / "a", 1, values, 1, 1, {}, Cut::whole);
  uint32_t seed = 1;
  for (const Cut cut : kCuts) {
    const fs::path other =
        save(root / fmt::format("b{}", seed), 1, values, 1 + static_cast<int>(seed % 4), seed, {}, cut);
    ++seed;
    const CheckpointComparison found = compare_checkpoints(first, other, {});
    EXPECT_TRUE(found.equal()) << int(cut);
    EXPECT_EQ(comparison_report(found), "equal: 9 tensors, 3 scalars\n");
  }
}

TEST(CompareCheckpoints, NamesWhatDiffers) {
  const TemporaryDirectory root;
  const GlobalValues values({{"model/a", {5, 3}, DType::fp32},
                             {"model/b", {4}, DType::fp32},
                             {"model/c", {2}, DType::int32},
                             {"model/d", {2}, DType::fp32},
                             {"adamw.m/a", {5, 3}, DType::fp32}},
                            std::vector<std::vector<std::byte>>{std::vector<std::byte>(60), std::vector<std::byte>(16),
                                                                std::vector<std::byte>(8), std::vector<std::byte>(8),
                                                                std::vector<std::byte>(60)});
  const fs::path a = save(root / "a", 1, values, 2);
  RankMemory rank;
  rank.state.tensors = {{"model/a", {5, 3}, DType::fp32},
                        {"model/b", {2, 2}, DType::fp32},
                        {"model/c", {2}, DType::fp32},
                        {"model/d", {2}, DType::bf16},
                        {"model/e", {1}, DType::fp32}};
  for (int t = 0; t < 5; ++t) rank.add(t, whole_box(rank.state.tensors[static_cast<size_t>(t)].shape), std::byte{0});
  const float value = 0.5F;
  std::memcpy(rank.memory[0].data() + 7 * sizeof(float), &value, sizeof value);
  rank.state.scalars = {{"step", 1}, {"seed", 0xFFFFFFFFFFFFFFFFU}, {"loss", 0.1000001}, {"more", {{"x", {1, 2}}}}};
  Alone alone;
  const fs::path b = save_checkpoint(root / "b", 1, rank.state, alone);
  CheckpointComparison found = compare_checkpoints(a, b, {});
  EXPECT_FALSE(found.equal());
  EXPECT_EQ(comparison_report(found),
            "model/b: shape [4] and [2, 2]\n"
            "model/c: dtype int32 and fp32\n"
            "adamw.m/a: only in A\n"
            "model/e: only in B\n"
            "model/a: 1 of 15 elements differ, by at most 0.5 (relative 1)\n"
            "model/d: dtype fp32 and bf16, 0 of 2 elements differ, by at most 0 (relative 0)\n"
            "loss: 0.1 and 0.1000001\n"
            "more.x[0]: nothing and 1\n"
            "more.x[1]: nothing and 2\n"
            "different: 6 of 6 tensors, 3 of 5 scalars\n");
  found = compare_checkpoints(a, b, {.tolerance = 1e-3});
  EXPECT_THAT(found.scalars, testing::SizeIs(2));
  EXPECT_THAT(comparison_report(compare_checkpoints(a, b, {.only = "model/a"})),
              HasSubstr("different: 1 of 1 tensors, 0 of 0 scalars\n"));
  EXPECT_THAT(error_message([&] { (void)compare_checkpoints(a, b, {.only = "modle/"}); }),
              AllOf(HasSubstr("no tensor in"), HasSubstr("'modle/'")));
}

TEST(CompareCheckpoints, DamageIsAnError) {
  const TemporaryDirectory root;
  const GlobalValues values(odd_tensors(), 3);
  const fs::path a = save(root / "a", 1, values, 1), b = save(root / "b", 1, values, 1);
  flip_byte(b / "rank-00000.safetensors", static_cast<int64_t>(fs::file_size(b / "rank-00000.safetensors")) - 1);
  EXPECT_THAT(error_message([&] { (void)compare_checkpoints(a, b, {}); }), HasSubstr("does not match"));
}

}  // namespace
}  // namespace partita::internal
