// The low-rank adapters of a model, and the tensors of PEFT's files that hold them. Pure.
//
//   for (const LoraAdapter& adapter : lora_adapters(model, lora))
//     ...   // rows [row, row + rows) of adapter.matrix get scale * B A added; B, A: parameters adapter.b, adapter.a
#pragma once
#include <string>
#include <vector>

#include "partita/interop/hf_names.h"
#include "partita/models/config.h"
#include "partita/models/lora.h"

namespace partita::internal {

struct LoraAdapter {
  std::string a, b;    // our names: "layers.0.attention.q.lora_a" [rank, in], ".lora_b" [rows, rank]
  std::string matrix;  // the adapted, frozen matrix: "layers.0.attention.qkv.weight"
  int64_t row = 0, rows = 0, in = 0;
  std::string module;  // PEFT's name: "model.layers.0.self_attn.q_proj"
};

// Ordered by layer, then by adapted_targets. Errors: those of validate(model) and validate(lora).
[[nodiscard]] std::vector<LoraAdapter> lora_adapters(const ModelConfig&, const LoraConfig&);

// Our adapter parameters, each one tensor of adapter_model.safetensors: "base_model.model.MODULE.lora_A.weight".
[[nodiscard]] std::vector<HfParameter> peft_parameters(const ModelConfig&, const LoraConfig&);

}  // namespace partita::internal
