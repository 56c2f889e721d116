// Where low-rank adapters are in a model, and where PEFT's files hold them. Pure.
//
//   for (const LoraAdapter& adapter : lora_adapters(model, lora))
//     ...   // rows [row, row + rows) of adapter.matrix have scale * B A added, parameters adapter.b and adapter.a
#pragma once
#include <string>
#include <vector>

#include "partita/interop/hf_names.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita::internal {

struct LoraAdapter {
  std::string a, b;    // ours: "layers.0.attention.q.lora_a" [rank, in], ".lora_b" [rows, rank]
  std::string matrix;  // the frozen one: "layers.0.attention.qkv.weight"
  int64_t row = 0, rows = 0, in = 0;
  std::string module;  // theirs: "model.layers.0.self_attn.q_proj"
};

// Layer by layer, in each in the order of adapted_targets. Errors: those of validate(model) and validate(lora).
[[nodiscard]] std::vector<LoraAdapter> lora_adapters(const ModelConfig&, const LoraConfig&);

// Our parameters of adapters, each one tensor of adapter_model.safetensors: "base_model.model.MODULE.lora_A.weight".
[[nodiscard]] std::vector<HfParameter> peft_parameters(const ModelConfig&, const LoraConfig&);

}  // namespace partita::internal
