#include "partita/interop/hf_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <span>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using ::testing::HasSubstr;

int64_t count_of(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

const HfParameter& find(std::span<const HfParameter> list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &HfParameter::name);
  if (found == list.end()) fail("no {}", name);
  return *found;
}

std::vector<ModelConfig> random_models() {
  std::mt19937 random(5);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<ModelConfig> models;
  for (int i = 0; i < 200; ++i) {
    ModelConfig m{.kind = i % 2 == 0 ? ModelKind::gpt2 : ModelKind::llama, .layers = draw(1, 4)};
    if (m.kind == ModelKind::gpt2) {
      m.heads = draw(1, 5);
      m.hidden_size = m.heads * draw(1, 9);
    } else {
      m.kv_heads = draw(1, 3);
      m.heads = m.kv_heads * draw(1, 4);
      m.head_width = 2 * draw(1, 5);
      m.hidden_size = draw(1, 40);
    }
    m.ffn_hidden_size = draw(1, 50);
    m.vocab_size = draw(1, 70);
    m.max_length = draw(1, 33);
    m.tied_head = i % 3 == 0 ? TiedHead::yes : i % 3 == 1 ? TiedHead::no : TiedHead::automatic;
    models.push_back(m);
  }
  return models;
}

// Each row of ours comes from one tensor, each tensor gives all its elements, and nothing is there twice.
TEST(HfNames, CoverEveryParameterAndEveryTensorOnce) {
  for (const ModelConfig& model : random_models()) {
    std::set<std::string> ours, theirs;
    int64_t elements = 0;
    for (const HfParameter& parameter : hf_parameters(model)) {
      EXPECT_TRUE(ours.insert(parameter.name).second) << parameter.name;
      const int64_t width = count_of(parameter.shape) / parameter.shape[0];
      int64_t row = 0;
      for (const HfPiece& piece : parameter.pieces) {
        EXPECT_TRUE(theirs.insert(piece.name).second) << piece.name;
        EXPECT_FALSE(is_hf_buffer(piece.name, model.kind)) << piece.name;
        EXPECT_EQ(piece.row, row) << piece.name;
        EXPECT_EQ(piece.shape[piece.transposed ? 1 : 0], piece.rows) << piece.name;
        EXPECT_EQ(count_of(piece.shape), piece.rows * width) << piece.name;
        EXPECT_EQ(piece.shape.size(), parameter.shape.size()) << piece.name;
        row += piece.rows;
      }
      EXPECT_EQ(row, parameter.shape[0]) << parameter.name;
      elements += count_of(parameter.shape);
    }
    EXPECT_EQ(elements, parameter_count(model));
    EXPECT_EQ(theirs.contains("lm_head.weight"), !model.has_tied_head());
    EXPECT_EQ(ours.contains("head.weight"), !model.has_tied_head());
  }
}

TEST(HfNames, Gpt2LinearsAreTransposed) {
  const ModelConfig model{.layers = 2, .hidden_size = 6, .heads = 2, .ffn_hidden_size = 10, .vocab_size = 7};
  const auto list = hf_parameters(model);
  EXPECT_EQ(list.size(), 2U + 2 * 12 + 2);
  const HfParameter& qkv = find(list, "layers.1.attention.qkv.weight");
  EXPECT_EQ(qkv.shape, (std::vector<int64_t>{18, 6}));
  ASSERT_EQ(qkv.pieces.size(), 1U);
  EXPECT_EQ(qkv.pieces[0].name, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(qkv.pieces[0].shape, (std::vector<int64_t>{6, 18}));
  EXPECT_TRUE(qkv.pieces[0].transposed);
  EXPECT_EQ(find(list, "layers.0.mlp.down.weight").pieces[0].shape, (std::vector<int64_t>{10, 6}));
  EXPECT_EQ(find(list, "layers.0.mlp.down.bias").pieces[0].name, "transformer.h.0.mlp.c_proj.bias");
  EXPECT_EQ(find(list, "layers.0.mlp.norm.weight").pieces[0].name, "transformer.h.0.ln_2.weight");
  EXPECT_EQ(find(list, "final_norm.bias").pieces[0].name, "transformer.ln_f.bias");
  EXPECT_FALSE(find(list, "embedding.position.weight").pieces[0].transposed);
}

TEST(HfNames, LlamasProjectionsAreRowsOfOneMatrix) {
  const ModelConfig model{.kind = ModelKind::llama,
                          .layers = 1,
                          .hidden_size = 10,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_width = 6,
                          .ffn_hidden_size = 14,
                          .vocab_size = 9};
  const auto list = hf_parameters(model);
  EXPECT_EQ(list.size(), 1U + 6 + 2);
  const HfParameter& qkv = find(list, "layers.0.attention.qkv.weight");
  EXPECT_EQ(qkv.shape, (std::vector<int64_t>{48, 10}));
  ASSERT_EQ(qkv.pieces.size(), 3U);
  EXPECT_EQ(qkv.pieces[1].name, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(qkv.pieces[1].row, 24);
  EXPECT_EQ(qkv.pieces[2].row, 36);
  EXPECT_EQ(qkv.pieces[2].shape, (std::vector<int64_t>{12, 10}));
  EXPECT_EQ(find(list, "layers.0.attention.output.weight").shape, (std::vector<int64_t>{10, 24}));
  const HfParameter& gate_up = find(list, "layers.0.mlp.gate_up.weight");
  EXPECT_EQ(gate_up.pieces[0].name, "model.layers.0.mlp.gate_proj.weight");
  EXPECT_EQ(gate_up.pieces[1].name, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(gate_up.pieces[1].row, 14);
  EXPECT_EQ(find(list, "head.weight").pieces[0].name, "lm_head.weight");
}

TEST(HfNames, KnowTheBuffersThatOldFilesHold) {
  EXPECT_TRUE(is_hf_buffer("transformer.h.3.attn.bias", ModelKind::gpt2));
  EXPECT_TRUE(is_hf_buffer("h.3.attn.masked_bias", ModelKind::gpt2));
  EXPECT_FALSE(is_hf_buffer("h.3.attn.c_attn.bias", ModelKind::gpt2));
  EXPECT_TRUE(is_hf_buffer("model.layers.3.self_attn.rotary_emb.inv_freq", ModelKind::llama));
  EXPECT_FALSE(is_hf_buffer("model.layers.3.self_attn.q_proj.weight", ModelKind::llama));
}

TEST(HfNames, RefuseAModelThatCannotBe) {
  EXPECT_THAT(error_message([] { (void)hf_parameters({.hidden_size = 100, .heads = 12}); }),
              HasSubstr("use 96 or 108"));
}

}  // namespace
}  // namespace partita::internal
