#include "partita/models/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using ::testing::HasSubstr;

ModelConfig gpt2_small() { return {.layers = 12, .hidden_size = 768, .heads = 12, .vocab_size = 50257}; }
ModelConfig gpt2_xl() { return {.layers = 48, .hidden_size = 1600, .heads = 25, .vocab_size = 50257}; }

std::string message(const ModelConfig& model) {
  return error_message([&] { validate(model); });
}

TEST(ModelConfig, TakesThePublishedShapes) {
  EXPECT_EQ(message(gpt2_small()), "no error");
  EXPECT_EQ(message(gpt2_xl()), "no error");
  EXPECT_EQ(message(ModelConfig{}), "no error");  // vocab_size 0: not known yet
  EXPECT_EQ(message({.layers = 1, .hidden_size = 1, .heads = 1, .vocab_size = 1, .max_length = 1}), "no error");
}

TEST(ModelConfig, NamesTheHiddenSizesThatHeadsDivide) {
  EXPECT_EQ(message({.hidden_size = 100, .heads = 12}), "hidden_size 100 is not divisible by 12 heads: use 96 or 108");
  EXPECT_EQ(message({.hidden_size = 5, .heads = 8}), "hidden_size 5 is not divisible by 8 heads: use 8");
}

TEST(ModelConfig, RefusesWhatNoModelHas) {
  EXPECT_THAT(message({.layers = 0}), HasSubstr("model.layers is 0: expected 1 to 10000"));
  EXPECT_THAT(message({.heads = -1}), HasSubstr("model.heads is -1"));
  EXPECT_THAT(message({.max_length = 0}), HasSubstr("model.max_length"));
  EXPECT_THAT(message({.ffn_hidden_size = -4}), HasSubstr("model.ffn_hidden_size"));
  EXPECT_THAT(message({.vocab_size = -1}), HasSubstr("model.vocab_size"));
  EXPECT_THAT(message({.dropout = 1.0}), HasSubstr("model.dropout is 1: expected at least 0 and less than 1"));
  EXPECT_THAT(message({.attention_dropout = std::nan("")}), HasSubstr("model.attention_dropout"));
  EXPECT_THAT(message({.embedding_dropout = -0.1}), HasSubstr("model.embedding_dropout"));
  EXPECT_THAT(message({.init_std = 0}), HasSubstr("model.init_std"));
  EXPECT_THAT(message({.norm_epsilon = 0}), HasSubstr("model.norm_epsilon"));
}

TEST(ModelConfig, RefusesSizesWhoseProductsOverflow) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_THAT(message({.layers = kHuge}), HasSubstr("model.layers is 4611686018427387904: expected 1 to 10000"));
  EXPECT_THAT(message({.hidden_size = kHuge, .heads = 1}), HasSubstr("model.hidden_size"));
  EXPECT_THAT(message({.heads = kHuge}), HasSubstr("model.heads"));
  EXPECT_THAT(message({.kind = ModelKind::llama, .kv_heads = kHuge}), HasSubstr("model.kv_heads"));
  EXPECT_THAT(message({.kind = ModelKind::llama, .head_width = kHuge}), HasSubstr("model.head_width"));
  EXPECT_THAT(message({.ffn_hidden_size = kHuge}), HasSubstr("model.ffn_hidden_size"));
  EXPECT_THAT(message({.vocab_size = kHuge}), HasSubstr("model.vocab_size"));
  EXPECT_THAT(message({.max_length = kHuge}), HasSubstr("model.max_length"));
  // Each within its limit, and together more than there are bytes on Earth.
  EXPECT_THAT(
      message({.layers = 10000, .hidden_size = 1 << 22, .heads = 64}),
      testing::AllOf(HasSubstr("model.layers 10000, hidden_size 4194304"), HasSubstr("parameters: use smaller")));
  EXPECT_EQ(message({.layers = 1000, .hidden_size = 32768, .heads = 64, .vocab_size = 1'000'000}), "no error");
}

TEST(ModelConfig, FfnIsFourTimesAsWideUnlessGiven) {
  EXPECT_EQ(gpt2_small().ffn_size(), 3072);
  EXPECT_EQ((ModelConfig{.hidden_size = 8, .ffn_hidden_size = 20}).ffn_size(), 20);
  EXPECT_EQ(gpt2_xl().head_size(), 64);
}

// The counts that GPT-2's published weights have.
TEST(ParameterCount, EqualsThePublishedModels) {
  EXPECT_EQ(parameter_count(gpt2_small()), 124'439'808);
  EXPECT_EQ(parameter_count(gpt2_xl()), 1'557'611'200);
}

ModelConfig llama(int64_t layers, int64_t hidden_size, int64_t heads, int64_t kv_heads, int64_t ffn,
                  int64_t vocabulary) {
  return {.kind = ModelKind::llama,
          .layers = layers,
          .hidden_size = hidden_size,
          .heads = heads,
          .kv_heads = kv_heads,
          .ffn_hidden_size = ffn,
          .vocab_size = vocabulary};
}

TEST(ParameterCount, EqualsThePublishedLlamas) {
  EXPECT_EQ(parameter_count(llama(32, 4096, 32, 0, 11008, 32000)), 6'738'415'616);   // Llama-2 7B
  EXPECT_EQ(parameter_count(llama(32, 4096, 32, 8, 14336, 128256)), 8'030'261'248);  // Llama-3 8B
  EXPECT_EQ(parameter_count(llama(22, 2048, 32, 4, 5632, 32000)), 1'100'048'384);    // TinyLlama
  ModelConfig tied = llama(16, 2048, 32, 8, 8192, 128256);
  tied.tied_head = TiedHead::yes;
  EXPECT_EQ(parameter_count(tied), 1'235'814'400);  // Llama-3.2 1B
}

TEST(ModelConfig, LlamaHasItsOwnDefaults) {
  ModelConfig m = llama(2, 4096, 32, 0, 0, 100);
  EXPECT_EQ(m.ffn_size(), 11008);
  EXPECT_EQ(m.key_value_heads(), 32);
  EXPECT_EQ(m.head_size(), 128);
  EXPECT_FALSE(m.has_tied_head());
  EXPECT_EQ(message(m), "no error");
  m.head_width = 6, m.heads = 5, m.kv_heads = 5;  // heads need not fill the residual stream
  EXPECT_EQ(message(m), "no error");
}

TEST(ModelConfig, RefusesWhatNoLlamaHas) {
  const auto changed = [](auto change) {
    ModelConfig m = llama(2, 24, 4, 2, 40, 61);
    change(m);
    return message(m);
  };
  EXPECT_EQ(changed([](ModelConfig&) {}), "no error");
  EXPECT_THAT(changed([](ModelConfig& m) { m.kv_heads = 3; }),
              HasSubstr("model.kv_heads 3 does not divide model.heads 4: use 1, 2 or 4"));
  EXPECT_THAT(changed([](ModelConfig& m) { m.kv_heads = -1; }), HasSubstr("model.kv_heads is -1"));
  EXPECT_THAT(changed([](ModelConfig& m) { m.head_width = 5; }), HasSubstr("turn pairs"));
  EXPECT_THAT(changed([](ModelConfig& m) { m.rope_theta = 0.5; }), HasSubstr("model.rope_theta is 0.5"));
  EXPECT_THAT(changed([](ModelConfig& m) { m.rope_factor = 0.5; }), HasSubstr("model.rope_factor is 0.5"));
  EXPECT_THAT(changed([](ModelConfig& m) { m.rope_factor = 8, m.rope_low_frequency = 4; }),
              HasSubstr("0 < low < high"));
  EXPECT_THAT(message({.kv_heads = 4}), HasSubstr("model.kv_heads is 4: gpt2"));
  EXPECT_THAT(message({.rope_factor = 2}), HasSubstr("rotary positions is set: gpt2 has none"));
}

TEST(FlopsPerToken, WithoutWeightGradientsAThirdLess) {
  const ModelConfig m = llama(2, 24, 4, 2, 40, 61);
  const double weights = 2 * (24 * (24 + 2 * 12 + 24) + 3 * 24 * 40) + 61 * 24;
  EXPECT_EQ(flops_per_token(m, 10, true) - flops_per_token(m, 10, false), 2 * weights);
}

TEST(ParameterCount, CountsEveryTensorOfASmallModel) {
  // vocab 7, positions 3, width 4, ffn 6: embedding 28 + 12; a layer 4*12+12 + 16+4 + 24+6 + 24+4 + 2 norms of 8;
  // final norm 8.
  const ModelConfig model{
      .layers = 2, .hidden_size = 4, .heads = 2, .ffn_hidden_size = 6, .vocab_size = 7, .max_length = 3};
  EXPECT_EQ(parameter_count(model), 28 + 12 + 2 * (60 + 20 + 30 + 28 + 16) + 8);
}

TEST(FlopsPerToken, CountsMatmulsAndHalfOfAttention) {
  const ModelConfig model{
      .layers = 2, .hidden_size = 4, .heads = 2, .ffn_hidden_size = 6, .vocab_size = 7, .max_length = 3};
  const double weights = 2 * (4 * 16 + 2 * 24) + 28;
  EXPECT_EQ(flops_per_token(model, 3), 6 * weights + 6.0 * 2 * 4 * 3);
  // Written out: causal scores of token t take 2 t h operations, values as many; the mean over t is length / 2 of each;
  // backward doubles, so 3 x (2 x 2 x h x length / 2) a layer.
  EXPECT_EQ(flops_per_token(model, 30) - flops_per_token(model, 10), 3.0 * 2 * (2 * 2 * 4 * 20 / 2));
}

}  // namespace
}  // namespace partita::internal
