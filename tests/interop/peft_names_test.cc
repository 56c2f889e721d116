#include "partita/interop/peft_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {
using ::testing::HasSubstr;

const ModelConfig kLlama{.kind = ModelKind::llama,
                         .layers = 2,
                         .hidden_size = 10,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_width = 6,
                         .ffn_hidden_size = 14,
                         .vocab_size = 9};
const ModelConfig kGpt2{.layers = 3, .hidden_size = 6, .heads = 2, .ffn_hidden_size = 10, .vocab_size = 7};

const LoraAdapter& find(const std::vector<LoraAdapter>& list, std::string_view a) {
  const auto found = std::ranges::find(list, a, &LoraAdapter::a);
  if (found == list.end()) fail("no {}", a);
  return *found;
}

TEST(PeftNames, SayWhichRowsAnAdapterChanges) {
  const auto adapters =
      lora_adapters(kLlama, {.rank = 3, .targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"});
  EXPECT_EQ(adapters.size(), 14U);
  const LoraAdapter& k = find(adapters, "layers.1.attention.k.lora_a");
  EXPECT_EQ(k.b, "layers.1.attention.k.lora_b");
  EXPECT_EQ(k.matrix, "layers.1.attention.qkv.weight");
  EXPECT_EQ(k.row, 24);
  EXPECT_EQ(k.rows, 12);
  EXPECT_EQ(k.in, 10);
  EXPECT_EQ(k.module, "model.layers.1.self_attn.k_proj");
  const LoraAdapter& up = find(adapters, "layers.0.mlp.up.lora_a");
  EXPECT_EQ(up.matrix, "layers.0.mlp.gate_up.weight");
  EXPECT_EQ(up.row, 14);
  EXPECT_EQ(find(adapters, "layers.0.mlp.down.lora_a").in, 14);
  const auto gpt2 = lora_adapters(kGpt2, {.rank = 1, .targets = "c_attn,c_proj"});
  EXPECT_EQ(gpt2.size(), 9U);  // c_proj stands in the attention and in the MLP
  EXPECT_EQ(find(gpt2, "layers.2.attention.qkv.lora_a").rows, 18);
  EXPECT_EQ(find(gpt2, "layers.2.mlp.down.lora_a").in, 10);
  EXPECT_EQ(find(gpt2, "layers.2.mlp.down.lora_a").rows, 6);
}

// Where every target is adapted, the adapters' rows are those of all the matrices of a layer, once each.
TEST(PeftNames, AdaptersOfAllTargetsCoverTheMatricesOfEveryLayer) {
  for (const auto& [model, targets] : {std::pair(kLlama, "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"),
                                       std::pair(kGpt2, "c_attn,c_proj,c_fc")}) {
    std::map<std::string, int64_t> rows;
    for (const LoraAdapter& adapter : lora_adapters(model, {.rank = 2, .targets = targets})) {
      EXPECT_EQ(adapter.row, rows[adapter.matrix]) << adapter.a;
      rows[adapter.matrix] += adapter.rows;
    }
    for (const HfParameter& parameter : hf_parameters(model)) {
      if (parameter.name.starts_with("layers.") && parameter.shape.size() == 2) {
        EXPECT_EQ(rows[parameter.name], parameter.shape[0]) << parameter.name;
      }
    }
  }
}

TEST(PeftNames, AreThoseOfPeft) {
  const auto parameters = peft_parameters(kLlama, {.rank = 3, .targets = "v_proj"});
  ASSERT_EQ(parameters.size(), 4U);
  EXPECT_EQ(parameters[2].name, "layers.1.attention.v.lora_a");
  EXPECT_EQ(parameters[2].shape, (std::vector<int64_t>{3, 10}));
  EXPECT_EQ(parameters[2].pieces[0].name, "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight");
  EXPECT_EQ(parameters[3].shape, (std::vector<int64_t>{12, 3}));
  EXPECT_EQ(parameters[3].pieces[0].name, "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight");
  EXPECT_EQ(peft_parameters(kGpt2, {.rank = 1})[0].pieces[0].name,
            "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight");
  EXPECT_TRUE(peft_parameters(kGpt2, {}).empty());
  EXPECT_THAT(error_message([] { (void)peft_parameters(kGpt2, {.rank = 1, .targets = "q_proj"}); }),
              HasSubstr("no linear \"q_proj\""));
}

}  // namespace
}  // namespace partita::internal
