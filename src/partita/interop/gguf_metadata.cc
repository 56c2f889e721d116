#include "partita/interop/gguf_metadata.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

// general.file_type: llama.cpp's number of "mostly" this type, which it only shows.
uint32_t file_type(GgufType usual) {
  switch (usual) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q8_0:
      return 7;
    case GgufType::bf16:
      break;
  }
  return 32;
}

constexpr uint32_t kQuantizationVersion = 2;  // of the blocks' layout

uint32_t size(std::string_view name, int64_t value) {
  if (value < 0 || value > std::numeric_limits<uint32_t>::max()) fail("{} is {}: GGUF has 32 bits for it", name, value);
  return static_cast<uint32_t>(value);
}

}  // namespace

GgufMetadata gguf_model_metadata(const ModelConfig& m, GgufType usual) {
  const bool llama = m.kind == ModelKind::llama;
  const std::string kind = llama ? "llama" : "gpt2";
  GgufMetadata metadata = {{"general.architecture", kind}, {"general.file_type", file_type(usual)}};
  if (usual == GgufType::q8_0) metadata.emplace_back("general.quantization_version", kQuantizationVersion);
  const auto add = [&](std::string_view name, int64_t value) {
    metadata.emplace_back(fmt::format("{}.{}", kind, name), size(name, value));
  };
  const auto add_number = [&](std::string_view name, double value) {
    metadata.emplace_back(fmt::format("{}.{}", kind, name), static_cast<float>(value));
  };
  add("vocab_size", m.vocab_size);
  add("context_length", m.max_length);
  add("embedding_length", m.hidden_size);
  add("block_count", m.layers);
  add("feed_forward_length", m.ffn_size());
  add("attention.head_count", m.heads);
  add("attention.head_count_kv", m.key_value_heads());
  add_number(llama ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", m.norm_epsilon);
  if (!llama) return metadata;
  add("attention.key_length", m.head_size());
  add("attention.value_length", m.head_size());
  add("rope.dimension_count", m.head_size());
  add_number("rope.freq_base", m.rope_theta);
  return metadata;
}

}  // namespace partita::internal
