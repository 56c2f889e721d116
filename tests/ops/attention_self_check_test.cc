#include "partita/ops/attention_self_check.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

// No library computes attention on the CPU, and none takes memory there: however large the shape, nothing is made.
TEST(AttentionSelfCheck, TheCpuHasNothingToCheck) {
  const Heads heads{.heads = 64, .kv_heads = 8, .head_width = 128};
  const int64_t large = int64_t{1} << 40;
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    EXPECT_NO_THROW(attention_self_check(at::kCPU, dtype, large, large, heads));
    EXPECT_EQ(reserve_workspace(at::kCPU, dtype, large, large, heads, 0.1F), 0);
  }
}

}  // namespace
}  // namespace partita::internal
