#include "partita/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

TEST(Check, NamesThePlaceWithinTheProject) {
  const auto message = [](const char* file) {
    return error_message([&] { internal::check_failed("a == b", file, 12, "a 1"); });
  };
  EXPECT_EQ(message("/home/someone/build/src/partita/base/x.cc"),
            "internal error at src/partita/base/x.cc:12: a == b does not hold: a 1");
  EXPECT_EQ(message("/src/a/src/cli/x.cc"), "internal error at src/cli/x.cc:12: a == b does not hold: a 1");
  EXPECT_EQ(message("x.cc"), "internal error at x.cc:12: a == b does not hold: a 1");
}

}  // namespace
}  // namespace partita::internal
