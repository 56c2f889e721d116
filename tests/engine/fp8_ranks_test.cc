// With products in 8 bits too every ZeRO stage is the same run: scales are those of a rank's own tensors, and stages do not
// change which rank multiplies what.
#include <gtest/gtest.h>

#include "tests/engine/small_model.h"
#include "tests/support/ranks.h"

namespace partita {
namespace {

TEST(Fp8Ranks, StagesAreTheSameRun) {
  const auto self = test_world().group("self", {test_world().rank()});
  const auto data = test_world().group("data", test_ranks());
  const int rank = test_world().rank(), ranks = test_world().size();
  for (ModelKind kind : {ModelKind::gpt2, ModelKind::llama}) {
    test::EngineCase c{.kind = kind, .samples = 16, .fp32_gradients = true, .compute = DType::bf16, .fp8 = true};
    std::vector<StepResult> expected;
    for (int stage : {0, 1, 2, 3}) {
      c.stage = stage;
      c.keep = stage == 3 ? Keep::entry : Keep::all;
      const auto found = test::run_steps(*test::make_engine(c, *self, *data), c, rank, ranks, 0, 2);
      if (expected.empty()) expected = found;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].loss, expected[i].loss) << "stage " << stage << ", step " << i;
        EXPECT_NEAR(found[i].grad_norm, expected[i].grad_norm, 1e-6 * expected[i].grad_norm) << "stage " << stage;
        EXPECT_FALSE(found[i].skipped);
      }
    }
  }
}

}  // namespace
}  // namespace partita
