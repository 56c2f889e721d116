#include "partita/train/tensor_plan_file.h"

#include <gmock/gmock.h>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

// gpt2_plan(64), as a file.
constexpr const char* kGpt2 = R"(
[parallel.plan]
"**wte" = "vocabulary"
"**attn.c_attn" = {role = "column", parts = 3, quantum = 64}
"**attn.c_proj" = {role = "row", quantum = 64}
"**mlp.c_fc" = "column"
"**mlp.c_proj" = "row"
"**lm_head" = {role = "vocabulary", optional = true}
)";

TEST(TensorPlanFile, IsThePlanInCode) {
  const TemporaryDirectory folder;
  write_file(folder / "plan.toml", kGpt2);
  const TensorPlan found = read_tensor_plan(folder / "plan.toml"), expected = gpt2_plan(64);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].module, expected[i].module);
    EXPECT_EQ(found[i].role, expected[i].role) << found[i].module;
    EXPECT_EQ(found[i].parts, expected[i].parts) << found[i].module;
    EXPECT_EQ(found[i].quantum, expected[i].quantum) << found[i].module;
    EXPECT_EQ(found[i].gather, expected[i].gather) << found[i].module;
    EXPECT_EQ(found[i].optional, expected[i].optional) << found[i].module;
  }
  EXPECT_THAT(error_message([&] { (void)read_tensor_plan(folder / "none.toml"); }), testing::HasSubstr("none.toml"));
}

}  // namespace
}  // namespace partita::internal
