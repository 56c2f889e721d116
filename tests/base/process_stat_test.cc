#include "partita/base/process_stat.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace partita::internal {
namespace {

TEST(ProcessStat, NamesMayHoldSpacesAndParentheses) {
  constexpr const char* kFields = " S 17 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 123456 23 24\n";
  for (const char* name : {"bash", "a (b) c", ") 1 2 3 (", ""}) {
    const auto stat = parse_process_stat(std::string("4711 (") + name + ")" + kFields);
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->name, name);
    EXPECT_EQ(stat->parent, 17);
    EXPECT_EQ(stat->started, 123456);
  }
}

TEST(ProcessStat, TextThatIsCutShortIsNone) {
  const std::string whole = "1 (a) S 0 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22";
  ASSERT_TRUE(parse_process_stat(whole));
  for (size_t bytes = 0; bytes + 2 < whole.size(); ++bytes)
    EXPECT_FALSE(parse_process_stat(whole.substr(0, bytes))) << whole.substr(0, bytes);
  EXPECT_FALSE(parse_process_stat("1 (a) S x 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22"));
  EXPECT_FALSE(parse_process_stat("1 )a( S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22"));
}

TEST(ProcessStat, OfThisProcess) {
  const auto stat = process_stat(getpid());
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, getppid());
  EXPECT_GT(stat->started, 0);
  EXPECT_GE(process_age(), 0);
  EXPECT_LT(process_age(), 3600);
  EXPECT_FALSE(process_stat(-1));
}

}  // namespace
}  // namespace partita::internal
