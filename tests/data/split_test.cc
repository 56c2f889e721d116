#include "partita/data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

SequenceRange range(std::string_view split, SplitName name, int64_t sequences) {
  return split_range(parse_split(split), name, sequences);
}

TEST(Split, BoundsAreRoundedSums) {
  EXPECT_EQ(range("969,30,1", SplitName::train, 1000), (SequenceRange{0, 969}));
  EXPECT_EQ(range("969,30,1", SplitName::valid, 1000), (SequenceRange{969, 999}));
  EXPECT_EQ(range("969,30,1", SplitName::test, 1000), (SequenceRange{999, 1000}));
  EXPECT_EQ(range("1", SplitName::train, 7), (SequenceRange{0, 7}));
  EXPECT_EQ(range("1", SplitName::valid, 7), (SequenceRange{7, 7}));
  EXPECT_EQ(range(" 0.5 , 0.5", SplitName::valid, 7), (SequenceRange{4, 7}));  // 3.5 to even: 4
  EXPECT_EQ(range("0.5,0.5", SplitName::train, 5), (SequenceRange{0, 2}));     // 2.5 to even: 2
  EXPECT_EQ(range("0,1,0", SplitName::valid, 3), (SequenceRange{0, 3}));
}

TEST(Split, PartsMeetAndCoverEverything) {
  for (const char* split : {"969,30,1", "90,5,5", "1,1,1", "98,2", "0.7,0.2,0.1", "3,0,4"}) {
    for (int64_t sequences :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{10}, int64_t{31'234'567}, int64_t{5'000'000'000}}) {
      const auto train = range(split, SplitName::train, sequences), valid = range(split, SplitName::valid, sequences),
                 test = range(split, SplitName::test, sequences);
      EXPECT_EQ(train.begin, 0);
      EXPECT_EQ(train.end, valid.begin);
      EXPECT_EQ(valid.end, test.begin);
      EXPECT_EQ(test.end, sequences) << split;
    }
  }
}

TEST(Split, RefusesWhatIsNoSplit) {
  for (const char* split : {"", ",", "1,", "a", "1,2,3,4", "-1,2", "0,0,0", "nan", "inf", "1;2", "1 2"}) {
    EXPECT_THAT(error_message([&] { return parse_split(split); }), HasSubstr("such as \"969,30,1\"")) << split;
  }
}

}  // namespace
}  // namespace partita::internal
