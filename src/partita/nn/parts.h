// The parts of a layer's packed matrices, covering all rows in order. The single definition for layers, for splits over
// ranks and for names in other formats (interop/hf_names.h). Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/nn/parameter.h"

namespace partita {

// Parts of qkv. Query heads that share a key/value head stay together with it.
[[nodiscard]] inline std::vector<ParameterPart> attention_parts(int64_t heads, int64_t kv_heads, int64_t head_width) {
  const int64_t kv = kv_heads * head_width;
  return {{.name = "attention.q", .rows = heads * head_width, .quantum = heads / kv_heads * head_width},
          {.name = "attention.k", .rows = kv, .quantum = head_width},
          {.name = "attention.v", .rows = kv, .quantum = head_width}};
}

// Parts of gate_up in a gated MLP.
[[nodiscard]] inline std::vector<ParameterPart> gate_up_parts(int64_t ffn_width) {
  return {{.name = "mlp.gate", .rows = ffn_width}, {.name = "mlp.up", .rows = ffn_width}};
}

}  // namespace partita
