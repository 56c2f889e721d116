#include "partita/train/layout_text.h"

#include <gtest/gtest.h>

#include <string>

namespace partita::internal {
namespace {

TEST(LayoutText, NamesWhatIsMoreThanOne) {
  Config c;
  EXPECT_EQ(layout_text(c, 1), "1 rank, ZeRO stage 0, fp32");
  c.parallel.zero_stage = 1, c.precision.compute = DType::bf16;
  EXPECT_EQ(layout_text(c, 4), "4 ranks = 4 data, ZeRO stage 1, bf16");
  c.parallel.tensor = 2;
  EXPECT_EQ(layout_text(c, 2), "2 ranks = 2 tensor, ZeRO stage 1, bf16");
  EXPECT_EQ(layout_text(c, 4), "4 ranks = 2 tensor x 2 data, ZeRO stage 1, bf16");
  c.parallel.context = 3, c.precision.fp8 = Fp8Recipe::delayed;
  EXPECT_EQ(layout_text(c, 24),
            "24 ranks = 2 tensor x 3 context x 4 data, ZeRO stage 1, bf16 with fp8 matmuls (delayed scales)");
}

TEST(LayoutText, NamesWhatEveryTensorRankHas) {
  Config c;
  c.model = {.layers = 4, .hidden_size = 24, .heads = 3, .vocab_size = 61, .max_length = 8};
  c.parallel.plan = {{"embedding", "replicate"}, {"layers.3.attention", "replicate"}, {"layers.*.mlp", "replicate"}};
  EXPECT_EQ(layout_text(c, 2), "2 ranks = 2 data, ZeRO stage 0, fp32");
  c.parallel.tensor = 2;
  const std::string tensor = "2 tensor (replicated: embedding, head, attention of layer 3, MLP of layers 0-3)";
  EXPECT_EQ(layout_text(c, 2), "2 ranks = " + tensor + ", ZeRO stage 0, fp32");
  c.parallel.pipeline = 2;
  EXPECT_EQ(layout_text(c, 8), "8 ranks = " + tensor + " x 2 data x 2 pipeline, schedule 1f1b, ZeRO stage 0, fp32");
}

TEST(LayoutText, NamesTheSchedule) {
  Config c;
  c.parallel.pipeline = 2;
  EXPECT_EQ(layout_text(c, 2), "2 ranks = 2 pipeline, schedule 1f1b, ZeRO stage 0, fp32");
  c.parallel.schedule = PipelineSchedule::interleaved;
  EXPECT_EQ(layout_text(c, 6),
            "6 ranks = 3 data x 2 pipeline, schedule interleaved with 2 stages per rank, ZeRO stage 0, fp32");
}

}  // namespace
}  // namespace partita::internal
