// The parts of a layer's packed matrices, covering all rows in order. The single definition for layers, for splits over
// ranks and for names in other formats (interop/hf_names.h). Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/nn/parameter.h"

namespace partita {

// Parts of qkv. Query heads stay with the key/value head that they read; with fewer key/value heads than ranks, ranks
// share one.
[[nodiscard]] inline std::vector<ParameterPart> attention_parts(int64_t heads, int64_t kv_heads, int64_t head_width) {
  const int64_t kv = kv_heads * head_width;
  return {{.name = "attention.q",
           .rows = heads * head_width,
           .quantum = heads / kv_heads * head_width,
           .inner = head_width},
          {.name = "attention.k", .rows = kv, .quantum = head_width, .replicated = true},
          {.name = "attention.v", .rows = kv, .quantum = head_width, .replicated = true}};
}

// Columns of an MLP's inner width that stay together: matmuls of wide models run best on multiples of 64, and fp8 ones
// need multiples of 16.
[[nodiscard]] inline int64_t ffn_quantum(int64_t ffn_width) {
  return ffn_width % 64 == 0 && ffn_width >= 2048 ? 64 : 1;
}

// The part of an MLP's first linear, and those of gate_up in a gated MLP.
[[nodiscard]] inline std::vector<ParameterPart> ffn_parts(const char* name, int64_t ffn_width) {
  return {{.name = name, .rows = ffn_width, .quantum = ffn_quantum(ffn_width)}};
}
[[nodiscard]] inline std::vector<ParameterPart> gate_up_parts(int64_t ffn_width) {
  return {ffn_parts("mlp.gate", ffn_width)[0], ffn_parts("mlp.up", ffn_width)[0]};
}

// The rows of an embedding table or an output head, of which a large vocabulary is split at multiples of 128.
[[nodiscard]] inline std::vector<ParameterPart> table_parts(int64_t rows) {
  return {{.name = "rows", .rows = rows, .quantum = rows >= 4096 ? 128 : 1}};
}

}  // namespace partita
