#include "partita/checkpoint/tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/checkpoint/damage.h"
#include "tests/support/boxes.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

TEST(Tiling, WantsEveryElementOnce) {
  const auto error = [](std::vector<Box> boxes) {
    return error_message([&] { check_tiling({"w", {4, 5}, DType::fp32}, std::move(boxes)); });
  };
  EXPECT_EQ(error({{0, 4, 0, 5}}), "no error");
  EXPECT_EQ(error({{3, 1, 2, 3}, {0, 3, 0, 4}, {3, 1, 0, 2}, {0, 3, 4, 1}}), "no error");
  EXPECT_EQ(error({}), "rows [0, 4), columns [0, 5) of 'w' are stored by no rank");
  EXPECT_EQ(error({{0, 4, 1, 4}}), "rows [0, 4), columns [0, 1) of 'w' are stored by no rank");
  EXPECT_EQ(error({{0, 4, 0, 2}, {0, 4, 3, 2}}), "rows [0, 4), columns [2, 3) of 'w' are stored by no rank");
  EXPECT_EQ(error({{0, 4, 0, 2}, {0, 3, 2, 3}}), "rows [3, 4), columns [2, 5) of 'w' are stored by no rank");
  EXPECT_EQ(error({{0, 1, 0, 5}, {2, 2, 0, 5}}), "rows [1, 2), columns [0, 5) of 'w' are stored by no rank");
  EXPECT_EQ(error({{0, 3, 0, 5}, {2, 2, 1, 3}}), "rows [2, 3), columns [1, 4) of 'w' are stored twice");
  EXPECT_EQ(error({{0, 4, 0, 3}, {0, 2, 2, 3}}), "rows [0, 2), columns [2, 3) of 'w' are stored twice");
  EXPECT_EQ(error({{0, 4, 0, 5}, {0, 4, 0, 5}}), "rows [0, 4), columns [0, 5) of 'w' are stored twice");
  EXPECT_EQ(error({{0, 5, 0, 5}}), "rows [0, 5), columns [0, 5) of 'w', whose shape is [4, 5]");
  EXPECT_EQ(error({{-1, 5, 0, 5}}), "rows [-1, 4), columns [0, 5) of 'w', whose shape is [4, 5]");
  EXPECT_EQ(error({{0, 4, 0, 5}, {0, 0, 0, 5}}), "rows [0, 0), columns [0, 5) of 'w', whose shape is [4, 5]");
}

TEST(Tiling, CountsTheElementsOfAVector) {
  const auto error = [](std::vector<int64_t> shape, std::vector<Box> boxes) {
    return error_message([&] { check_tiling({"b", shape, DType::fp32}, std::move(boxes)); });
  };
  EXPECT_EQ(error({7}, {{0, 1, 3, 4}, {0, 1, 0, 3}}), "no error");
  EXPECT_EQ(error({7}, {{0, 1, 4, 3}, {0, 1, 0, 3}}), "elements [3, 4) of 'b' are stored by no rank");
  EXPECT_EQ(error({7}, {{0, 1, 2, 5}, {0, 1, 0, 3}}), "elements [2, 3) of 'b' are stored twice");
  EXPECT_EQ(error({}, {{0, 1, 0, 1}}), "no error");
  EXPECT_EQ(error({}, {}), "elements [0, 1) of 'b' are stored by no rank");
  EXPECT_EQ(error({0}, {}), "no error");
  EXPECT_EQ(error({3, 0}, {}), "no error");
  EXPECT_EQ(error({0, 4}, {}), "no error");
  EXPECT_EQ(error({0, 4}, {{0, 1, 0, 4}}), "rows [0, 1), columns [0, 4) of 'b', whose shape is [0, 4]");
}

// Any tiling passes; one box less, or one element more, is named.
TEST(Tiling, FindsWhatIsMissingOrDoubled) {
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    const std::vector<int64_t> shape = {1 + test::random_up_to(random, 6), 1 + test::random_up_to(random, 6)};
    const TensorInfo tensor{"w", shape, DType::fp32};
    std::vector<Box> boxes = test::random_tiling(random, whole_box(shape), test::Cut::mixed);
    std::erase_if(boxes, [](const Box& box) { return box.count() == 0; });
    EXPECT_NO_THROW(check_tiling(tensor, boxes));
    std::vector<Box> less = boxes, more = boxes;
    less.erase(less.begin() + test::random_up_to(random, std::ssize(less) - 1));
    EXPECT_THROW(check_tiling(tensor, less), Damaged);
    more.push_back(test::random_box(random, whole_box(shape)));
    EXPECT_THAT([&] { check_tiling(tensor, more); }, testing::ThrowsMessage<Damaged>(HasSubstr("stored twice")));
    // Moved onto its neighbor: one is missing where another is doubled.
    std::vector<Box> moved = boxes;
    moved[0] = boxes.back();
    if (boxes.size() > 1) {
      EXPECT_THROW(check_tiling(tensor, moved), Damaged);
    }
  }
}

// A box for each element of a large matrix, where a comparison of each two would take 4 * 10^10 steps.
TEST(Tiling, TakesNoQuadraticTime) {
  std::vector<Box> boxes;
  for (int64_t row = 0; row < 450; ++row)
    for (int64_t column = 0; column < 450; ++column) boxes.push_back({row, 1, column, 1});
  const TensorInfo tensor{"w", {450, 450}, DType::fp32};
  EXPECT_NO_THROW(check_tiling(tensor, boxes));
  boxes.pop_back();
  EXPECT_THAT([&] { check_tiling(tensor, boxes); },
              testing::ThrowsMessage<Damaged>(HasSubstr("rows [449, 450), columns [449, 450) of 'w'")));
}

}  // namespace
}  // namespace partita::internal
