// Low-rank adapters (E. Hu et al., "LoRA: low-rank adaptation of large language models", 2021): next to a frozen matrix
// W, two small matrices are trained, y = x W^T + alpha / rank * dropout(x) A^T B^T, A [rank, in], B [out, rank].
//
//   LoraConfig lora{.rank = 16, .alpha = 32, .targets = "q_proj,v_proj"};
//   validate(lora, ModelKind::llama);
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "partita/models/config.h"

namespace partita {

struct LoraConfig {
  int64_t rank = 0;  // 0: no adapters, everything is trained
  double alpha = 16;
  double dropout = 0;
  // Comma-separated Hugging Face names of linears: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj for
  // llama; c_attn, c_fc, c_proj (attention and MLP) for gpt2. Empty: the attention linears.
  std::string targets;

  bool operator==(const LoraConfig&) const = default;
};

// A linear of a layer that may have an adapter.
struct LoraTarget {
  std::string_view part;          // our name: "attention.q"; parameters "layers.0.attention.q.lora_a" and ".lora_b"
  std::string_view hugging_face;  // "self_attn.q_proj", "attn.c_attn"
};
// All targets in a layer of this kind.
[[nodiscard]] std::vector<LoraTarget> lora_targets(ModelKind);
// The Hugging Face name of the linear that is this part.
[[nodiscard]] std::string_view hugging_face_linear(ModelKind, std::string_view part);
// The targets with adapters, in the order of lora_targets; none if rank is 0.
[[nodiscard]] std::vector<LoraTarget> adapted_targets(const LoraConfig&, ModelKind);

// Error: a target that this kind of model does not have (lists the valid ones); a rank or probability out of range.
void validate(const LoraConfig&, ModelKind);

}  // namespace partita
