#include "partita/module/tensor_plan.h"

#include <gmock/gmock.h>

#include "partita/base/error.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

std::vector<WholeParameter> llama(int64_t heads, int64_t kv_heads, int64_t head, int64_t vocabulary) {
  const int64_t width = heads * head, inner = 2 * width + 3;
  return {{"model.embed_tokens.weight", {vocabulary, width}},
          {"model.layers.0.self_attn.q_proj.weight", {width, width}},
          {"model.layers.0.self_attn.k_proj.weight", {kv_heads * head, width}},
          {"model.layers.0.self_attn.v_proj.weight", {kv_heads * head, width}},
          {"model.layers.0.self_attn.o_proj.weight", {width, width}},
          {"model.layers.0.mlp.gate_proj.weight", {inner, width}},
          {"model.layers.0.mlp.up_proj.weight", {inner, width}},
          {"model.layers.0.mlp.down_proj.weight", {width, inner}},
          {"model.layers.0.input_layernorm.weight", {width}},
          {"lm_head.weight", {vocabulary, width}}};
}

// Every element of what is divided is held once, what one linear puts out is what the next one takes, and query heads
// are with the key/value head that they read.
TEST(TensorPlan, LlamaIsDividedWithoutGaps) {
  for (const int ranks : {1, 2, 3, 4, 5})
    for (const int64_t kv_heads : {5, 6, 7}) {
      const int64_t heads = 3 * kv_heads, head = 4;
      const auto parameters = llama(heads, kv_heads, head, 101);
      std::vector<int64_t> held(parameters.size(), 0);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto parts = divide(llama_plan(head, heads, kv_heads), parameters, rank, ranks);
        ASSERT_EQ(parts.size(), parameters.size());
        for (size_t p = 0; p < parts.size(); ++p) held[p] += parts[p].spec.local_count();
        const auto box = [&](size_t p) { return parts[p].spec.local.front().box; };
        EXPECT_EQ(box(1).row, box(2).row * 3);
        EXPECT_EQ(box(1).rows, box(2).rows * 3);
        EXPECT_EQ(box(2), box(3));
        EXPECT_EQ(box(1).row, box(4).column);
        EXPECT_EQ(box(1).rows, box(4).columns);
        EXPECT_EQ(box(5), box(6));
        EXPECT_EQ(box(5).row, box(7).column);
        EXPECT_EQ(box(5).rows, box(7).columns);
        EXPECT_EQ(box(0), box(9));
        EXPECT_EQ(parts[8].rule, nullptr);
        EXPECT_EQ(parts[8].spec.local.front().shared(), ranks > 1);
      }
      for (size_t p = 0; p < parameters.size(); ++p)
        EXPECT_EQ(held[p], parameters[p].shape[0] * (p == 8 ? ranks : parameters[p].shape[1])) << parameters[p].name;
    }
}

TEST(TensorPlan, PartsAreDividedSeparately) {
  const std::vector<WholeParameter> gpt2{{"h.0.attn.c_attn.weight", {30, 10}}, {"h.0.attn.c_attn.bias", {30}}};
  const auto parts = divide({{"**c_attn", TensorRole::column, 3, 2}}, gpt2, 1, 2);  // five heads of two
  std::vector<Box> rows, elements;
  for (const LocalBox& l : parts[0].spec.local) rows.push_back(l.box);
  for (const LocalBox& l : parts[1].spec.local) elements.push_back(l.box);
  EXPECT_THAT(rows, testing::ElementsAre(Box{4, 6, 0, 10}, Box{14, 6, 0, 10}, Box{24, 6, 0, 10}));
  EXPECT_THAT(elements, testing::ElementsAre(Box{0, 1, 4, 6}, Box{0, 1, 14, 6}, Box{0, 1, 24, 6}));
  const auto row = divide({{"**c_attn", TensorRole::row, 1, 5}}, gpt2, 0, 2);
  EXPECT_EQ(row[0].spec.local.front().box, (Box{0, 30, 0, 5}));
  EXPECT_EQ(row[1].spec.split, Split::none);  // the bias is added once
}

TEST(TensorPlan, WhatDoesNotFitIsAnError) {
  const std::vector<WholeParameter> all{{"a.weight", {6, 4}}, {"a.bias", {6}}, {"norm.weight", {4}}};
  const auto message = [&](TensorRule rule, int ranks = 2) {
    return error_message([&] { (void)divide({rule}, all, 0, ranks); });
  };
  EXPECT_THAT(message({.module = "b"}), HasSubstr("tensor plan, rule \"b\": no parameter is of a module of this name"));
  EXPECT_THAT(message({.module = "b"}), HasSubstr("the modules are a, norm"));
  EXPECT_EQ(message({.module = "b", .optional = true}), "no error");
  EXPECT_THAT(message({.module = "a", .role = TensorRole::column, .parts = 4}),
              HasSubstr("6 rows of a.weight cannot be divided into 4 parts whose size is a multiple of 1"));
  EXPECT_THAT(message({.module = "a", .role = TensorRole::row, .quantum = 3}),
              HasSubstr("4 columns of a.weight cannot be divided into one part whose size is a multiple of 3"));
  EXPECT_THAT(message({.module = "a", .role = TensorRole::row, .parts = 2}),
              HasSubstr("parts 2, which only rules of role column may have"));
  EXPECT_THAT(message({.module = "a", .role = TensorRole::column, .quantum = 3}, 3), HasSubstr("use at most 2 ranks"));
  EXPECT_THAT(message({.module = "norm", .role = TensorRole::column}),
              HasSubstr("norm.weight has shape [4], expected the weight of a linear or an embedding"));
  EXPECT_THAT(message({.module = "a", .role = TensorRole::row, .gather = true}),
              HasSubstr("gather is for outputs that are divided"));
  EXPECT_THAT(message({.module = "a", .quantum = 0}), HasSubstr("expected at least 1"));
  EXPECT_THAT(error_message([] { (void)llama_plan(8, 6, 4); }), HasSubstr("6 heads and 4 key/value heads"));
}

}  // namespace
}  // namespace partita::internal
