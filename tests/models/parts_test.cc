// How the parameters of whole models are divided over tensor-parallel ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "partita/models/model.h"
#include "partita/nn/split.h"

namespace partita::internal {
namespace {

std::map<std::string, ParameterSpec> parameters(const ModelConfig& model, const LoraConfig& lora = {}) {
  std::map<std::string, ParameterSpec> all;
  for (const auto& block : make_blocks(model, DType::fp32, lora))
    for (const ParameterSpec& p : block->parameters()) {
      const auto [found, is_new] = all.emplace(p.name, p);
      EXPECT_EQ(found->second.split, p.split) << p.name << " of two blocks";
    }
  return all;
}

const ModelConfig kGpt2{.layers = 2, .hidden_size = 40, .heads = 5, .vocab_size = 31, .max_length = 16};
const ModelConfig kLlama{.kind = ModelKind::llama,
                         .layers = 2,
                         .hidden_size = 40,
                         .heads = 12,
                         .kv_heads = 6,
                         .head_width = 4,
                         .ffn_hidden_size = 30,
                         .vocab_size = 31};

TEST(Parts, MatricesBeforeTheActivationGiveRowsThoseAfterItColumns) {
  auto gpt2 = parameters(kGpt2);
  const std::map<std::string, Split> expected = {{"embedding.token.weight", Split::rows},
                                                 {"embedding.position.weight", Split::rows},
                                                 {"layers.1.attention.norm.weight", Split::none},
                                                 {"layers.1.attention.norm.bias", Split::none},
                                                 {"layers.1.attention.qkv.weight", Split::rows},
                                                 {"layers.1.attention.qkv.bias", Split::rows},
                                                 {"layers.1.attention.output.weight", Split::columns},
                                                 {"layers.1.attention.output.bias", Split::none},
                                                 {"layers.1.mlp.norm.weight", Split::none},
                                                 {"layers.1.mlp.norm.bias", Split::none},
                                                 {"layers.1.mlp.up.weight", Split::rows},
                                                 {"layers.1.mlp.up.bias", Split::rows},
                                                 {"layers.1.mlp.down.weight", Split::columns},
                                                 {"layers.1.mlp.down.bias", Split::none},
                                                 {"final_norm.weight", Split::none},
                                                 {"final_norm.bias", Split::none}};
  for (const auto& [name, split] : expected) EXPECT_EQ(gpt2.at(name).split, split) << name;
  for (const auto& [name, spec] : gpt2) EXPECT_TRUE(expected.contains(name) || name.starts_with("layers.0.")) << name;
  auto llama = parameters(kLlama);
  EXPECT_EQ(llama.at("layers.0.attention.qkv.weight").split, Split::rows);
  EXPECT_EQ(llama.at("layers.0.attention.output.weight").split, Split::columns);
  EXPECT_EQ(llama.at("layers.0.mlp.gate_up.weight").split, Split::rows);
  EXPECT_EQ(llama.at("layers.0.mlp.down.weight").split, Split::columns);
  EXPECT_EQ(llama.at("head.weight").split, Split::rows);
}

// With adapters everywhere: what one linear makes is what the next of the same rank reads, on any number of ranks.
TEST(Parts, OfOneRankFitTogether) {
  const LoraConfig gpt2_lora{.rank = 3, .targets = "c_attn,c_fc,c_proj"};
  const LoraConfig llama_lora{.rank = 3, .targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"};
  for (const auto& [model, lora] : {std::pair(kGpt2, gpt2_lora), std::pair(kLlama, llama_lora)}) {
    const auto all = parameters(model, lora);
    for (int ranks = 1; ranks <= 5; ++ranks) {
      std::map<std::string, int64_t> held;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto boxes = [&](const std::string& name) {
          std::vector<Box> list;
          for (const LocalBox& local : local_boxes(all.at("layers.1." + name), rank, ranks)) list.push_back(local.box);
          return list;
        };
        for (const auto& [name, spec] : all)
          for (const LocalBox& local : local_boxes(spec, rank, ranks)) held[name] += local.box.count();
        const std::vector<Box> qkv = boxes("attention.qkv.weight");
        ASSERT_EQ(qkv.size(), 3U);
        const int64_t group = model.heads / model.key_value_heads();
        EXPECT_EQ(qkv[0].row, (qkv[1].row - model.heads * model.head_size()) * group) << "heads of q and of k";
        EXPECT_EQ(qkv[0].rows, qkv[1].rows * group);
        EXPECT_EQ(qkv[1].rows, qkv[2].rows);
        const std::vector<Box> output = boxes("attention.output.weight"), down = boxes("mlp.down.weight");
        EXPECT_EQ(output[0].column, qkv[0].row);
        EXPECT_EQ(output[0].columns, qkv[0].rows);
        const std::vector<Box> up = boxes(model.kind == ModelKind::gpt2 ? "mlp.up.weight" : "mlp.gate_up.weight");
        EXPECT_EQ(down[0].column, up[0].row);
        EXPECT_EQ(down[0].columns, up[0].rows);
        // An adapter has the rows and columns of its matrix.
        const bool gpt2 = model.kind == ModelKind::gpt2;
        EXPECT_EQ(boxes(gpt2 ? "attention.qkv.lora_b" : "attention.q.lora_b")[0].rows, qkv[0].rows);
        EXPECT_EQ(boxes("attention.output.lora_a")[0].column, output[0].column);
        EXPECT_EQ(boxes("attention.output.lora_a")[0].columns, output[0].columns);
        EXPECT_EQ(boxes("mlp.up.lora_b")[0].rows, up[0].rows);
        EXPECT_EQ(boxes("mlp.down.lora_a")[0].columns, down[0].columns);
      }
      for (const auto& [name, spec] : all)
        EXPECT_EQ(held[name], spec.count() * (spec.split == Split::none ? ranks : 1)) << name << " on " << ranks;
    }
  }
}

}  // namespace
}  // namespace partita::internal
