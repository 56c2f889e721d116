#include "partita/config/plan_file.h"

#include <gmock/gmock.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using ::testing::HasSubstr;

std::string message(std::string_view rules) {
  return error_message([&] { (void)read_plan_rules("[parallel.plan]\n" + std::string(rules), "p.toml"); });
}

TEST(PlanFile, ReadsRulesInTheirOrder) {
  const std::vector<PlanRule> rules = read_plan_rules(R"(
[model]
layers = "not read"
[parallel.plan]
"z.*" = "vocabulary"
"**qkv" = {role = "column", parts = 3, quantum = 64, gather = true}
table = {gather = false, role = "vocabulary", optional = true}
[parallel.plan."a.norm"]
role = "replicate_sum"
)",
                                                      "p.toml");
  ASSERT_EQ(rules.size(), 4U);
  EXPECT_EQ(rules[0].pattern, "z.*");
  EXPECT_EQ(rules[0].role, TensorRole::vocabulary);
  EXPECT_EQ(rules[0].parts, 1);
  EXPECT_FALSE(rules[0].gather.has_value());
  EXPECT_EQ(rules[1].pattern, "**qkv");
  EXPECT_EQ(rules[1].role, TensorRole::column);
  EXPECT_EQ(rules[1].parts, 3);
  EXPECT_EQ(rules[1].quantum, 64);
  EXPECT_EQ(rules[1].gather, true);
  EXPECT_FALSE(rules[1].optional);
  EXPECT_EQ(rules[2].pattern, "table");
  EXPECT_EQ(rules[2].gather, false);
  EXPECT_TRUE(rules[2].optional);
  EXPECT_EQ(rules[3].pattern, "a.norm");
  EXPECT_EQ(rules[3].role, TensorRole::replicate_sum);
}

TEST(PlanFile, SaysWhereAndWhatIsWrong) {
  EXPECT_EQ(error_message([] { (void)read_plan_rules("[parallel]\ntensor = 2\n", "p.toml"); }),
            "p.toml: no table [parallel.plan]: expected one with lines \"NAME\" = \"ROLE\"");
  EXPECT_EQ(message("a = 'x'\nhead = 'colunm'\n"),
            "p.toml:2: parallel.plan, \"a\": unknown role \"x\": expected one of column, row, vocabulary, replicate, "
            "replicate_sum");
  EXPECT_EQ(message("head = 'colunm'\n"),
            "p.toml:2: parallel.plan, \"head\": unknown role \"colunm\": expected one of column, row, vocabulary, "
            "replicate, replicate_sum: did you mean 'column'?");
  EXPECT_EQ(message("a = {role = 'row', quantm = 3}\n"),
            "p.toml:2: parallel.plan, \"a\": unknown key 'quantm': expected one of role, parts, quantum, gather, "
            "optional: did you mean 'quantum'?");
  EXPECT_EQ(message("a = {role = 'row', quantum = 0}\n"),
            "p.toml:2: parallel.plan, \"a\": quantum must be an integer of at least 1");
  EXPECT_EQ(message("a = {role = 'row', gather = 1}\n"),
            "p.toml:2: parallel.plan, \"a\": gather must be true or false");
  EXPECT_THAT(message("a.b = 'row'\n"), HasSubstr("a name with points is written in quotes"));
  EXPECT_THAT(message("a = 3\n"), HasSubstr("the role is not a string"));
  EXPECT_THAT(message("layers.*.mlp = 'row'\n"), HasSubstr("p.toml:2: not valid TOML"));
}

}  // namespace
}  // namespace partita::internal
