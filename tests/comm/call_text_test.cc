#include "partita/comm/call_text.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

TEST(CallText, SpellsGroupsOut) {
  EXPECT_EQ(call_text("ends", "all_reduce", 210), "all-reduce no. 210 of the first and the last pipeline rank");
  EXPECT_EQ(call_text("world", "barrier", 0), "barrier no. 0 of all ranks");
  EXPECT_EQ(call_text("dp", "all_to_all", 1), "all-to-all no. 1 of the data-parallel ranks");
  EXPECT_EQ(call_text("mine", "send", 3, 2), "send no. 3 of mine with rank 2");
}

// Both ranks say the same of one message: they know that they wait for each other.
TEST(CallText, NamesTheEndsOfAMessage) {
  EXPECT_EQ(call_text("pp 1>0", "send", 3, 0), "message no. 3 from pipeline rank 1 to 0");
  EXPECT_EQ(call_text("pp 1>0", "receive", 3, 1), call_text("pp 1>0", "send", 3, 0));
  EXPECT_EQ(call_text("pp", "send", 3, 0), "send no. 3 of the pipeline ranks with rank 0");
}

}  // namespace
}  // namespace partita::internal
