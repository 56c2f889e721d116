#include "partita/comm/memory_folder.h"

#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

TEST(StepCounter, KeepsTheFurthestOfAllStarts) {
  const TemporaryDirectory folder;
  EXPECT_EQ(steps_reached(folder.path()), 0);
  {
    StepCounter first(folder.path(), "a");
    EXPECT_EQ(steps_reached(folder.path()), 0);
    first.set(57);
    EXPECT_EQ(steps_reached(folder.path()), 57);
    first.set(58);
  }
  StepCounter again(folder.path(), "a");
  again.set(51);  // resumed from an earlier step
  EXPECT_EQ(steps_reached(folder.path()), 58);
  again.set(59);
  EXPECT_EQ(steps_reached(folder.path()), 59);
}

// A job may have several runs, one after the other.
TEST(StepCounter, RunsAreAdded) {
  const TemporaryDirectory folder;
  StepCounter(folder.path(), "a").set(100);
  StepCounter(folder.path(), "b").set(3);
  write_file(folder / "other", "12345678");
  write_file(folder / "steps-cut", "123");
  EXPECT_EQ(steps_reached(folder.path()), 103);
}

TEST(StepCounter, NeedsNoFolder) {
  StepCounter("", "a").set(1);
  StepCounter("/nowhere/at/all", "a").set(1);
  EXPECT_EQ(steps_reached(""), 0);
  EXPECT_EQ(steps_reached("/nowhere/at/all"), 0);
}

}  // namespace
}  // namespace partita::internal
