#include "partita/models/presets.h"

namespace partita {
namespace {

ModelConfig gpt2(int64_t layers, int64_t hidden_size, int64_t heads) {
  return {.layers = layers, .hidden_size = hidden_size, .heads = heads, .vocab_size = 50257, .max_length = 1024};
}

}  // namespace

ModelConfig gpt2_small() { return gpt2(12, 768, 12); }
ModelConfig gpt2_medium() { return gpt2(24, 1024, 16); }
ModelConfig gpt2_large() { return gpt2(36, 1280, 20); }
ModelConfig gpt2_xl() { return gpt2(48, 1600, 25); }

ModelConfig tiny_llama() {
  return {.kind = ModelKind::llama,
          .layers = 22,
          .hidden_size = 2048,
          .heads = 32,
          .kv_heads = 4,
          .ffn_hidden_size = 5632,
          .vocab_size = 32000,
          .max_length = 2048};
}

ModelConfig llama2_7b() {
  return {.kind = ModelKind::llama,
          .layers = 32,
          .hidden_size = 4096,
          .heads = 32,
          .ffn_hidden_size = 11008,
          .vocab_size = 32000,
          .max_length = 4096};
}

ModelConfig llama3_8b() {
  return {.kind = ModelKind::llama,
          .layers = 32,
          .hidden_size = 4096,
          .heads = 32,
          .kv_heads = 8,
          .ffn_hidden_size = 14336,
          .vocab_size = 128256,
          .max_length = 8192,
          .rope_theta = 500000};
}

}  // namespace partita
