#include "partita/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>

namespace partita::internal {
namespace {
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

std::string stderr_of(const std::function<void()>& action) {
  ::testing::internal::CaptureStderr();
  action();
  return ::testing::internal::GetCapturedStderr();
}

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("PARTITA_TERMINAL_WIDTH");
    log::set_level(log::Level::info);
    log::configure(0, 1);
  }
  void TearDown() override { SetUp(); }
};

TEST_F(LogTest, RankZeroShowsInformation) {
  EXPECT_THAT(stderr_of([] { log::info("step {}", 7); }), MatchesRegex("\\[[0-9:]+\\] step 7\n"));
  EXPECT_THAT(stderr_of([] { log::warn("slow"); }), MatchesRegex("\\[[0-9:]+\\] warning: slow\n"));
  EXPECT_THAT(stderr_of([] { log::debug("detail"); }), IsEmpty());
}

TEST_F(LogTest, OtherRanksShowWarningsWithTheirNumber) {
  log::configure(3, 4);
  EXPECT_THAT(stderr_of([] { log::info("step"); }), IsEmpty());
  EXPECT_THAT(stderr_of([] { log::warn("slow"); }), HasSubstr("[rank 3] warning: slow"));
  EXPECT_THAT(stderr_of([] { log::error("lost"); }), HasSubstr("[rank 3] error: lost"));
}

TEST_F(LogTest, LevelQuietens) {
  log::set_level(log::Level::error);
  EXPECT_THAT(stderr_of([] { log::info("a"), log::warn("b"); }), IsEmpty());
  EXPECT_THAT(stderr_of([] { log::error("c"); }), HasSubstr("error: c"));
  log::set_level(log::Level::off);
  EXPECT_THAT(stderr_of([] { log::error("c"); }), IsEmpty());
}

TEST_F(LogTest, ParsesTheNamesOfTheEnvironment) {
  EXPECT_EQ(log::parse_level("debug"), log::Level::debug);
  EXPECT_EQ(log::parse_level("warn"), log::Level::warn);
  EXPECT_EQ(log::parse_level("off"), log::Level::off);
  EXPECT_EQ(log::parse_level("loud"), std::nullopt);
}

TEST_F(LogTest, PrintIsForStandardOutputOfRankZero) {
  ::testing::internal::CaptureStdout();
  log::set_level(log::Level::off);
  log::print("one");
  log::print("two\n");
  log::configure(1, 2);
  log::print("never");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "one\ntwo\n");
}

TEST_F(LogTest, StatusNeedsATerminal) {
  EXPECT_THAT(stderr_of([] { log::status("50%"); }), IsEmpty());
}

TEST_F(LogTest, MessagesStandAboveTheStatus) {
  ::setenv("PARTITA_TERMINAL_WIDTH", "80", 1);
  EXPECT_EQ(log::terminal_width(), 80);
  const std::string shown = stderr_of([] {
    log::status("50%");
    log::info("saved");
    log::status("");
    log::info("done");
  });
  // The status is drawn, erased for the message, drawn again, and erased for good.
  EXPECT_THAT(shown, MatchesRegex("50%\r\x1b\\[K\\[[0-9:]+\\] saved\n50%\r\x1b\\[K\\[[0-9:]+\\] done\n"));
}

// A message is one line, whatever the names in it hold.
TEST_F(LogTest, NamesStartNoLine) {
  EXPECT_THAT(stderr_of([] { log::info("resuming from {}", "a\nb\x1b[2J"); }),
              MatchesRegex("\\[[0-9:]+\\] resuming from a\\\\x0ab\\\\x1b\\[2J\n"));
}

// A rank of `partita launch` hands its status to the launcher, and all lines go one way.
TEST_F(LogTest, RanksOfALauncherSendTheirStatus) {
  ::setenv("PARTITA_TERMINAL_WIDTH", "80", 1);
  ::setenv("PARTITA_STATUS_LINES", "1", 1);
  ::setenv("PARTITA_ONE_TERMINAL", "1", 1);
  const std::string shown = stderr_of([] {
    log::status("50%");
    log::info("saved");
    log::print("step 7");
    log::status("");
  });
  ::unsetenv("PARTITA_STATUS_LINES");
  ::unsetenv("PARTITA_ONE_TERMINAL");
  EXPECT_THAT(shown, MatchesRegex("\\[partita\\] status: 50%\n\\[[0-9:]+\\] saved\nstep 7\n\\[partita\\] status: \n"));
}

}  // namespace
}  // namespace partita::internal
