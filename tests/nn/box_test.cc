#include "partita/nn/box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "partita/base/error.h"
#include "tests/support/boxes.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The global elements of a box in its own order, of a matrix of that many columns.
std::vector<int64_t> elements(const Box& box, int64_t width) {
  std::vector<int64_t> list;
  for (int64_t r = box.row; r < box.row + box.rows; ++r)
    for (int64_t c = box.column; c < box.column + box.columns; ++c) list.push_back(r * width + c);
  return list;
}

TEST(Box, AVectorIsOneRow) {
  EXPECT_EQ(whole_box(std::vector<int64_t>{7}), (Box{0, 1, 0, 7}));
  EXPECT_EQ(whole_box(std::vector<int64_t>{}), (Box{0, 1, 0, 1}));
  EXPECT_EQ(whole_box(std::vector<int64_t>{3, 5}), (Box{0, 3, 0, 5}));
  EXPECT_EQ(whole_box(std::vector<int64_t>{3, 5, 2}), (Box{0, 3, 0, 10}));
}

TEST(Box, ARunIsAtMostThreeBoxes) {
  const Box box{.row = 10, .rows = 4, .column = 6, .columns = 3};
  EXPECT_THAT(boxes_of_run(box, 2, 8), ElementsAre(Box{10, 1, 8, 1}, Box{11, 2, 6, 3}, Box{13, 1, 6, 1}));
  EXPECT_THAT(boxes_of_run(box, 0, 12), ElementsAre(box));
  EXPECT_THAT(boxes_of_run(box, 4, 1), ElementsAre(Box{11, 1, 7, 1}));
  EXPECT_THAT(boxes_of_run(box, 12, 0), IsEmpty());
  EXPECT_THROW((void)boxes_of_run(box, 5, 8), Error);
}

TEST(Box, RunsKeepTheOrderOfElements) {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const Box box = test::random_box(random, {0, 6, 0, 7});
    const auto all = elements(box, 7);
    const auto begin = static_cast<int64_t>(random() % all.size());
    const auto count = static_cast<int64_t>(random() % (all.size() - static_cast<size_t>(begin) + 1));
    std::vector<int64_t> found;
    const std::vector<Box> boxes = boxes_of_run(box, begin, count);
    EXPECT_LE(boxes.size(), 3U);
    for (const Box& part : boxes)
      for (const int64_t e : elements(part, 7)) found.push_back(e);
    EXPECT_EQ(found, std::vector<int64_t>(all.begin() + begin, all.begin() + begin + count));
  }
}

TEST(Box, IsCutIntoWholeRowsOrPartsOfOne) {
  const Box box{.row = 10, .rows = 5, .column = 6, .columns = 4};
  EXPECT_THAT(cut_box(box, 100), ElementsAre(box));
  EXPECT_THAT(cut_box(box, 11), ElementsAre(Box{10, 2, 6, 4}, Box{12, 2, 6, 4}, Box{14, 1, 6, 4}));
  EXPECT_THAT(cut_box({0, 2, 0, 5}, 3),
              ElementsAre(Box{0, 1, 0, 3}, Box{0, 1, 3, 2}, Box{1, 1, 0, 3}, Box{1, 1, 3, 2}));
  EXPECT_THAT(cut_box({0, 3, 0, 0}, 3), IsEmpty());
  EXPECT_THAT(cut_box({0, 0, 0, 3}, 3), IsEmpty());
  EXPECT_THROW((void)cut_box(box, 0), Error);
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    const Box any = test::random_box(random, {0, 6, 0, 7});
    const int64_t most = 1 + test::random_up_to(random, 20);
    std::vector<int64_t> found;
    for (const Box& part : cut_box(any, most)) {
      EXPECT_LE(part.count(), most);
      for (const int64_t e : elements(part, 7)) found.push_back(e);
    }
    EXPECT_EQ(found, elements(any, 7));
  }
}

TEST(Box, ContainsWhatIsNotBeyondIt) {
  const Box box{.row = 2, .rows = 3, .column = 4, .columns = 5};
  EXPECT_TRUE(contains(box, box));
  EXPECT_TRUE(contains(box, {4, 1, 8, 1}));
  EXPECT_TRUE(contains(box, {5, 0, 9, 0}));
  for (const Box& other :
       std::vector<Box>{{1, 2, 4, 5}, {2, 4, 4, 5}, {2, 3, 3, 5}, {2, 3, 4, 6}, {2, -1, 4, 5}, {6, 0, 4, 5}})
    EXPECT_FALSE(contains(box, other)) << other.row << " " << other.rows << " " << other.column << " " << other.columns;
}

TEST(Box, CopiesMoveWhatBothHold) {
  std::mt19937 random(12);
  for (int round = 0; round < 500; ++round) {
    const Box from = test::random_box(random, {0, 6, 0, 7}), to = test::random_box(random, {0, 6, 0, 7});
    const auto source = elements(from, 7);
    std::vector<int64_t> target(static_cast<size_t>(to.count()), -1);
    for (const BoxCopy& copy : copies_between(from, to))
      for (int64_t i = 0; i < copy.count; ++i)
        target[static_cast<size_t>(copy.to + i)] = source[static_cast<size_t>(copy.from + i)];
    const auto wanted = elements(to, 7);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const bool shared = std::ranges::find(source, wanted[i]) != source.end();
      EXPECT_EQ(target[i], shared ? wanted[i] : -1) << "round " << round;
    }
  }
}

TEST(Box, RowsOfTheSameWidthAreOneCopy) {
  EXPECT_THAT(copies_between({2, 5, 0, 9}, {4, 8, 0, 9}), ElementsAre(BoxCopy{18, 0, 27}));
  EXPECT_THAT(copies_between({0, 2, 0, 9}, {0, 2, 3, 2}), ElementsAre(BoxCopy{3, 0, 2}, BoxCopy{12, 2, 2}));
  EXPECT_THAT(copies_between({0, 2, 0, 3}, {0, 2, 3, 2}), IsEmpty());
}

}  // namespace
}  // namespace partita::internal
