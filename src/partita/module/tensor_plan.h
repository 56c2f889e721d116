// How the linears and embeddings of a torch::nn::Module are divided over tensor-parallel ranks, by the names of the
// modules. Pure. parallelize (module/parallelize.h) does it.
//
//   const TensorPlan plan{{.module = "layers.*.qkv", .role = TensorRole::column, .parts = 3, .quantum = 64},
//                         {.module = "layers.*.projection", .role = TensorRole::row, .quantum = 64},
//                         {.module = "table", .role = TensorRole::vocabulary}};
//
// M. Shoeybi et al., "Megatron-LM: Training multi-billion parameter language models using model parallelism", 2019.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partita/nn/parameter.h"
#include "partita/nn/tensor_role.h"

namespace partita {

struct TensorRule {
  // Names of modules as in named_parameters(), without the last component. '*' stands for any characters but a point,
  // '**' for any characters (base/name_pattern.h). The first rule that matches counts.
  std::string module;
  TensorRole role = TensorRole::replicate;
  // Equal matrices that are stacked in the rows of a weight, each divided separately: 3 for query, key and value.
  int64_t parts = 1;
  // Rows (TensorRole::row: columns) that stay together, such as the size of a head. Ranks need not divide their number.
  int64_t quantum = 1;
  // Every rank gets the outputs of all, in order. Default: true for role vocabulary, false for column.
  std::optional<bool> gather = {};
  bool optional = false;  // it is no error that it matches nothing
};

using TensorPlan = std::vector<TensorRule>;

// For modules with the names of Hugging Face's GPT-2 (wte, c_attn, c_proj, c_fc, lm_head) as torch::nn::Linear.
[[nodiscard]] TensorPlan gpt2_plan(int64_t head_size);
// For modules with the names of Hugging Face's Llama (embed_tokens, q_proj, k_proj, ..., lm_head). Query heads stay
// with the key/value head that they read.
[[nodiscard]] TensorPlan llama_plan(int64_t head_size, int64_t heads, int64_t kv_heads);

}  // namespace partita

namespace partita::internal {

struct WholeParameter {
  std::string name;
  std::vector<int64_t> shape;
};

// What a rank has of a parameter.
struct TensorPart {
  ParameterSpec spec;                // with its boxes
  const TensorRule* rule = nullptr;  // null: none matches
};

// In the order of the parameters. Errors: a rule matches no parameter, unless it is optional; parts or quantum that do
// not fit; what a role divides is no matrix, or no bias of one; more ranks than quanta.
[[nodiscard]] std::vector<TensorPart> divide(const TensorPlan&, const std::vector<WholeParameter>&, int rank,
                                             int ranks);

}  // namespace partita::internal
