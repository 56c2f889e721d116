#include "partita/comm/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Hostlist, Expands) {
  EXPECT_THAT(expand_hostlist(""), ElementsAre());
  EXPECT_THAT(expand_hostlist("node"), ElementsAre("node"));
  EXPECT_THAT(expand_hostlist("n[1-3,7],login-2"), ElementsAre("n1", "n2", "n3", "n7", "login-2"));
  EXPECT_THAT(expand_hostlist("n[08-11]"), ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(expand_hostlist("n[9-10]"), ElementsAre("n9", "n10"));
  EXPECT_THAT(expand_hostlist("r[1-2]c[0,3].site"), ElementsAre("r1c0.site", "r1c3.site", "r2c0.site", "r2c3.site"));
}

TEST(Hostlist, ErrorsNameThePlace) {
  const auto message = [](const char* list) -> std::string {
    try {
      return "no error, " + std::to_string(expand_hostlist(list).size()) + " hosts";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message("n[1-3"), "host list 'n[1-3': expected ']' at character 6");
  EXPECT_THAT(message("n[3-1]"), HasSubstr("a range that descends"));
  EXPECT_THAT(message("n[a]"), HasSubstr("expected a number at character 3"));
  EXPECT_THAT(message("n[]"), HasSubstr("expected a number"));
  EXPECT_THAT(message("n[1-]"), HasSubstr("expected a number"));
  EXPECT_THAT(message("a,,b"), HasSubstr("an empty name"));
  EXPECT_THAT(message("a,"), HasSubstr("an empty name"));
  EXPECT_THAT(message("n1]"), HasSubstr("']' without '['"));
  EXPECT_THAT(message("n[0-4000000000]"), HasSubstr("more than a million hosts"));
  EXPECT_THAT(message("n[0-1999][0-1999]"), HasSubstr("more than a million hosts"));
  EXPECT_THAT(message("n[99999999999999999999]"), HasSubstr("expected a number"));
}

}  // namespace
}  // namespace partita::internal
