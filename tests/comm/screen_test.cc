#include "partita/comm/screen.h"

#include <gtest/gtest.h>

#include "partita/comm/launched_arguments.h"

namespace partita::internal {
namespace {

TEST(Screen, TextStandsAboveTheStatus) {
  Screen screen;
  EXPECT_EQ(screen.show("a\n", "", 80), "a\n");
  EXPECT_EQ(screen.show("", "10%", 80), "10%");
  EXPECT_EQ(screen.show("", "10%", 80), "") << "nothing new";
  EXPECT_EQ(screen.show("", "20%", 80), "\r\x1b[K20%");
  EXPECT_EQ(screen.show("b\nc\n", "20%", 80), "\r\x1b[Kb\nc\n20%");
  EXPECT_EQ(screen.show("", "", 80), "\r\x1b[K");
  EXPECT_EQ(screen.show("d\n", "", 80), "d\n");
}

TEST(Screen, TheStatusWaitsForTheEndOfALine) {
  Screen screen;
  EXPECT_EQ(screen.show("", "10%", 80), "10%");
  EXPECT_EQ(screen.show("once", "10%", 80), "\r\x1b[Konce");
  EXPECT_EQ(screen.show("", "20%", 80), "");
  EXPECT_EQ(screen.show(" upon", "20%", 80), " upon");
  EXPECT_EQ(screen.show(" a time\n", "20%", 80), " a time\n20%");
}

TEST(Screen, TheStatusIsCutToTheTerminal) {
  Screen screen;
  EXPECT_EQ(screen.show("", "0123456789", 8), "01234");
  EXPECT_EQ(screen.show("", "0123456789", 100), "\r\x1b[K0123456789");
  EXPECT_EQ(screen.show("", "0123456789", 0), "\r\x1b[K");
  // Between two fields where there are some; the two spaces before a small number part none.
  EXPECT_EQ(screen.show("", "  5% [##]  loss 4.2  ETA 1:00", 80), "  5% [##]  loss 4.2  ETA 1:00");
  EXPECT_EQ(screen.show("", "  5% [##]  loss 4.2  ETA 1:00", 30), "\r\x1b[K  5% [##]  loss 4.2");
  EXPECT_EQ(screen.show("", "  5% [##]  loss 4.2  ETA 1:00", 20), "\r\x1b[K  5% [##]");
  EXPECT_EQ(screen.show("", "  5% [##]  loss 4.2  ETA 1:00", 9), "\r\x1b[K  5% [");
}

TEST(LaunchedArguments, ComeBackAsTheyWere) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(to_launched({"train", "c.toml", "--train.steps=3", ":", "-x", "", "=", "a:b", "a=b"}),
            (Words{"train", "c.toml", "=--train.steps=3", "=:", "=-x", "=", "==", "a:b", "a=b"}));
  for (const Words& words : {Words{}, Words{""}, Words{":", ":"}, Words{"=", "==", "=-", "-", "--", "x", " ", "\n"}})
    EXPECT_EQ(from_launched(to_launched(words)), words);
  const char* const argv[] = {"partita", "=a", "b"};
  EXPECT_EQ(own_arguments(3, argv), (Words{"=a", "b"})) << "not started by launch";
  EXPECT_EQ(own_arguments(0, argv), Words{});
}

}  // namespace
}  // namespace partita::internal
