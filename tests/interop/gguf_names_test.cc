#include "partita/interop/gguf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partita/interop/gguf_metadata.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

const ModelConfig kLlama{.kind = ModelKind::llama,
                         .layers = 2,
                         .hidden_size = 12,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_width = 6,
                         .ffn_hidden_size = 20,
                         .vocab_size = 61,
                         .max_length = 64};

std::vector<std::string> names_of(const std::vector<GgufTensor>& tensors) {
  std::vector<std::string> names;
  for (const GgufTensor& t : tensors) names.push_back(t.name);
  return names;
}

const GgufTensor& named(const std::vector<GgufTensor>& tensors, std::string_view name) {
  for (const GgufTensor& t : tensors)
    if (t.name == name) return t;
  throw std::runtime_error(std::string(name));
}

TEST(GgufNames, OfGpt2) {
  const ModelConfig model{.layers = 1, .hidden_size = 6, .heads = 2, .vocab_size = 7, .max_length = 5};
  const std::vector<GgufTensor> tensors = gguf_tensors(model);
  EXPECT_THAT(
      names_of(tensors),
      ElementsAre("token_embd.weight", "position_embd.weight", "blk.0.attn_norm.weight", "blk.0.attn_norm.bias",
                  "blk.0.attn_qkv.weight", "blk.0.attn_qkv.bias", "blk.0.attn_output.weight", "blk.0.attn_output.bias",
                  "blk.0.ffn_norm.weight", "blk.0.ffn_norm.bias", "blk.0.ffn_up.weight", "blk.0.ffn_up.bias",
                  "blk.0.ffn_down.weight", "blk.0.ffn_down.bias", "output_norm.weight", "output_norm.bias"));
  EXPECT_THAT(named(tensors, "blk.0.attn_qkv.weight").shape, ElementsAre(18, 6));
  EXPECT_THAT(named(tensors, "blk.0.ffn_down.weight").shape, ElementsAre(6, 24));
  EXPECT_EQ(named(tensors, "blk.0.ffn_down.weight").hugging_face, "transformer.h.0.mlp.c_proj.weight");
  for (const GgufTensor& t : tensors) EXPECT_EQ(t.interleaved_head_width, 0) << t.name;
}

TEST(GgufNames, OfLlama) {
  const std::vector<GgufTensor> tensors = gguf_tensors(kLlama);
  ASSERT_EQ(tensors.size(), 1U + 2 * 9 + 2);
  EXPECT_THAT(names_of(tensors), Contains("blk.1.ffn_gate.weight"));
  EXPECT_EQ(tensors.back().name, "output.weight");
  const GgufTensor &q = named(tensors, "blk.1.attn_q.weight"), &k = named(tensors, "blk.1.attn_k.weight"),
                   &v = named(tensors, "blk.1.attn_v.weight"), &up = named(tensors, "blk.1.ffn_up.weight");
  EXPECT_EQ(q.box, (Box{.row = 0, .rows = 24, .column = 0, .columns = 12}));
  EXPECT_EQ(k.box, (Box{.row = 24, .rows = 12, .column = 0, .columns = 12}));
  EXPECT_EQ(v.box, (Box{.row = 36, .rows = 12, .column = 0, .columns = 12}));
  EXPECT_EQ(up.box, (Box{.row = 20, .rows = 20, .column = 0, .columns = 12}));
  EXPECT_EQ(q.interleaved_head_width, 6);
  EXPECT_EQ(k.interleaved_head_width, 6);
  EXPECT_EQ(v.interleaved_head_width, 0);
}

TEST(GgufNames, ATiedHeadIsLeftOut) {
  ModelConfig model = kLlama;
  model.tied_head = TiedHead::yes;
  EXPECT_THAT(names_of(gguf_tensors(model)), testing::Not(Contains("output.weight")));
}

// Channel i of a head's first half and i of its second become neighbors.
TEST(GgufNames, RowsOfAHeadAreInterleaved) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < 12; ++row) rows.push_back(row_of_interleaved(row, 6));
  EXPECT_THAT(rows, ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
}

TEST(GgufNames, TypesThatLlamaCppRequires) {
  const std::vector<GgufTensor> llama = gguf_tensors(kLlama);
  const std::vector<GgufTensor> gpt2 = gguf_tensors({.layers = 1, .hidden_size = 64, .heads = 2, .vocab_size = 7});
  const StoredTypes mixed{.usual = ElementType::bf16,
                          .others = {{"model.norm.weight", ElementType::f16}, {"lm_head.weight", ElementType::f32}}};
  EXPECT_EQ(gguf_type(named(llama, "output_norm.weight"), mixed, false), GgufType::f32);
  EXPECT_EQ(gguf_type(named(llama, "output.weight"), mixed, false), GgufType::f32);
  EXPECT_EQ(gguf_type(named(llama, "blk.0.attn_q.weight"), mixed, false), GgufType::bf16);
  EXPECT_EQ(gguf_type(named(llama, "blk.0.attn_q.weight"), {.usual = ElementType::f16}, false), GgufType::f16);
  EXPECT_EQ(gguf_type(named(llama, "blk.0.attn_q.weight"), mixed, true), GgufType::f16);  // rows of 12
  EXPECT_EQ(gguf_type(named(gpt2, "blk.0.attn_qkv.weight"), mixed, true), GgufType::q8_0);
  EXPECT_EQ(gguf_type(named(gpt2, "blk.0.attn_qkv.bias"), mixed, true), GgufType::f32);
  EXPECT_EQ(gguf_type(named(gpt2, "position_embd.weight"), mixed, true), GgufType::f32);
  EXPECT_EQ(gguf_type(named(gpt2, "position_embd.weight"), mixed, false), GgufType::f32);
  EXPECT_THAT(
      error_message([&] { (void)gguf_type(named(gpt2, "token_embd.weight"), {.usual = ElementType::i8}, false); }),
      testing::HasSubstr("weights are not exported as I8"));
}

// Hugging Face's definition, for the model of tests/golden/hf/llama_rope_scaled.
TEST(GgufNames, DivisorsOfRotaryFrequencies) {
  EXPECT_TRUE(gguf_rope_divisors(kLlama).empty());
  EXPECT_TRUE(gguf_rope_divisors({.vocab_size = 7}).empty());
  ModelConfig model = kLlama;
  model.head_width = 10;
  model.rope_theta = 50;
  model.rope_factor = 8;
  model.rope_low_frequency = 1;
  model.rope_high_frequency = 2;
  model.rope_original_length = 16;
  const std::vector<float> divisors = gguf_rope_divisors(model);
  ASSERT_EQ(divisors.size(), 5U);
  EXPECT_EQ(divisors[0], 1);
  // A turn takes 2 pi 50^(1/5) = 13.739593 positions: 16 / 13.739593 - 1 = 0.1645178 of the way from 1/8 to 1.
  EXPECT_NEAR(divisors[1], 1 / (0.125 + 0.875 * 0.1645178), 1e-5);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(divisors[i], 8) << i;
}

TEST(GgufMetadata, WhatTheLoaderAsksFor) {
  using Value = GgufValue;
  const GgufMetadata llama = gguf_model_metadata(kLlama, GgufType::q8_0);
  EXPECT_THAT(
      llama,
      ElementsAre(
          Pair("general.architecture", Value("llama")), Pair("general.file_type", Value(uint32_t{7})),
          Pair("general.quantization_version", Value(uint32_t{2})), Pair("llama.vocab_size", Value(uint32_t{61})),
          Pair("llama.context_length", Value(uint32_t{64})), Pair("llama.embedding_length", Value(uint32_t{12})),
          Pair("llama.block_count", Value(uint32_t{2})), Pair("llama.feed_forward_length", Value(uint32_t{20})),
          Pair("llama.attention.head_count", Value(uint32_t{4})),
          Pair("llama.attention.head_count_kv", Value(uint32_t{2})),
          Pair("llama.attention.layer_norm_rms_epsilon", Value(1e-5F)),
          Pair("llama.attention.key_length", Value(uint32_t{6})),
          Pair("llama.attention.value_length", Value(uint32_t{6})),
          Pair("llama.rope.dimension_count", Value(uint32_t{6})), Pair("llama.rope.freq_base", Value(10000.F))));
  const GgufMetadata gpt2 = gguf_model_metadata({.vocab_size = 50257, .norm_epsilon = 1e-3}, GgufType::bf16);
  EXPECT_THAT(
      gpt2,
      ElementsAre(Pair("general.architecture", Value("gpt2")), Pair("general.file_type", Value(uint32_t{32})),
                  Pair("gpt2.vocab_size", Value(uint32_t{50257})), Pair("gpt2.context_length", Value(uint32_t{1024})),
                  Pair("gpt2.embedding_length", Value(uint32_t{768})), Pair("gpt2.block_count", Value(uint32_t{12})),
                  Pair("gpt2.feed_forward_length", Value(uint32_t{3072})),
                  Pair("gpt2.attention.head_count", Value(uint32_t{12})),
                  Pair("gpt2.attention.head_count_kv", Value(uint32_t{12})),
                  Pair("gpt2.attention.layer_norm_epsilon", Value(1e-3F))));
}

}  // namespace
}  // namespace partita::internal
