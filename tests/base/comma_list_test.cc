#include "partita/base/comma_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::internal {
namespace {

using testing::ElementsAre;

TEST(CommaList, ItemsAreTrimmedAndEmptyOnesStay) {
  EXPECT_THAT(comma_list("a"), ElementsAre("a"));
  EXPECT_THAT(comma_list(" a ,b c,  d"), ElementsAre("a", "b c", "d"));
  EXPECT_THAT(comma_list(""), ElementsAre(""));
  EXPECT_THAT(comma_list(" "), ElementsAre(""));
  EXPECT_THAT(comma_list(",a,"), ElementsAre("", "a", ""));
}

}  // namespace
}  // namespace partita::internal
