// FLOP counts against figures that other programs report for the same shapes and speeds.
#include "partita/models/flops.h"

#include <gtest/gtest.h>

namespace partita::internal {
namespace {

const ModelConfig kGpt124{.layers = 12, .hidden_size = 768, .heads = 12, .vocab_size = 50304, .max_length = 1024};
const ModelConfig kGpt1500{.layers = 48, .hidden_size = 1600, .heads = 25, .vocab_size = 50304, .max_length = 1024};
const ModelConfig kLlama1100{.kind = ModelKind::llama,
                             .layers = 22,
                             .hidden_size = 2048,
                             .heads = 32,
                             .kv_heads = 4,
                             .vocab_size = 32000,
                             .max_length = 2048};
const ModelConfig kLlama7000{
    .kind = ModelKind::llama, .layers = 32, .hidden_size = 4096, .heads = 32, .vocab_size = 32000, .max_length = 4096};

TEST(Flops, CountedParametersLeaveOutTables) {
  EXPECT_EQ(counted_parameters(kGpt124), 123689472);  // 12 x 7087872 + 768 x 50304 + 2 x 768
  EXPECT_EQ(counted_parameters(kLlama1100), 1034512384);
  EXPECT_EQ(counted_parameters(kLlama7000), 6607343616);
  ModelConfig tied = kLlama1100;
  tied.tied_head = TiedHead::yes;
  EXPECT_EQ(counted_parameters(tied), counted_parameters(kLlama1100));
}

struct Figure {
  ModelConfig model;
  double tokens_per_second, full, causal;
};

// Tokens a second of one H100 and the MFU in per cent, as a program of PyTorch printed them on 2026-11-27.
TEST(Flops, UtilisationOfKnownSpeeds) {
  const double peak = peak_flops("NVIDIA H100 80GB HBM3", DType::bf16);
  for (const Figure& f : {Figure{kGpt124, 538.7e3, 46.6, 43.5}, Figure{kGpt1500, 45.7e3, 47.5, 45.3},
                          Figure{kLlama1100, 74.4e3, 55.0, 50.9}, Figure{kLlama7000, 11.83e3, 55.1, 51.3}}) {
    const auto percent = [&](AttentionCount count) {
      return 100 * f.tokens_per_second * training_flops(f.model, f.model.max_length, count) / peak;
    };
    EXPECT_NEAR(percent(AttentionCount::full), f.full, 0.1);
    EXPECT_NEAR(percent(AttentionCount::causal), f.causal, 0.1);
  }
}

TEST(Flops, Recomputation) {
  const double once = training_flops(kLlama7000, 4096, AttentionCount::full);
  EXPECT_EQ(repeated_flops(kLlama7000, 4096, Recompute::none, 0), 0);
  EXPECT_EQ(repeated_flops(kLlama7000, 4096, Recompute::selective, 0), 0);
  EXPECT_DOUBLE_EQ(repeated_flops(kLlama7000, 4096, Recompute::full, 0), once / 3);
  EXPECT_DOUBLE_EQ(repeated_flops(kLlama7000, 4096, Recompute::none, 8), once / 12);
  EXPECT_DOUBLE_EQ(repeated_flops(kLlama7000, 4096, Recompute::selective, 99), once / 3);
  // 11.83k tokens/s with attention, qkv and output kept: HFU 62.0% beside MFU 55.1%.
  const double again = repeated_flops(kLlama7000, 4096, Recompute::mlp, 0);
  EXPECT_DOUBLE_EQ(again, 32 * 2.0 * 4096 * 2 * 11008);
  EXPECT_NEAR(100 * 11.83e3 * (once + again) / 989e12, 62.0, 0.1);
  EXPECT_DOUBLE_EQ(repeated_flops(kLlama7000, 4096, Recompute::mlp, 8), once / 12 + again * 24 / 32);
  EXPECT_DOUBLE_EQ(repeated_flops(kGpt124, 1024, Recompute::mlp, 0), 12 * 2.0 * 768 * 3072);
}

TEST(Flops, PeakByCardAndDtype) {
  struct Peak {
    const char* card;
    double half, fp32;
  };
  for (const auto& [card, half, fp32] :
       {Peak{"NVIDIA H100 80GB HBM3", 989e12, 67e12}, Peak{"NVIDIA H200", 989e12, 67e12},
        Peak{"NVIDIA H200 NVL", 835e12, 60e12}, Peak{"NVIDIA H100 NVL", 835e12, 60e12},
        Peak{"NVIDIA H100 PCIe", 756e12, 51e12}, Peak{"NVIDIA GH200 480GB", 989e12, 67e12}, Peak{"AMD EPYC 9R14", 0, 0},
        Peak{"", 0, 0}}) {
    EXPECT_EQ(peak_flops(card, DType::bf16), half) << card;
    EXPECT_EQ(peak_flops(card, DType::fp16), half) << card;
    EXPECT_EQ(peak_flops(card, DType::fp32), fp32) << card;
  }
}

}  // namespace
}  // namespace partita::internal
