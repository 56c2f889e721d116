#include "partita/interop/gguf_names.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "partita/base/error.h"
#include "partita/interop/hf_names.h"
#include "partita/ops/rope.h"

namespace partita::internal {
namespace {

// Hugging Face's name, without its ending and what stands in front of it, and GGUF's.
using Pair = std::pair<std::string_view, std::string_view>;

constexpr std::array kGpt2Layer = {Pair{"ln_1", "attn_norm"},          Pair{"attn.c_attn", "attn_qkv"},
                                   Pair{"attn.c_proj", "attn_output"}, Pair{"ln_2", "ffn_norm"},
                                   Pair{"mlp.c_fc", "ffn_up"},         Pair{"mlp.c_proj", "ffn_down"}};
constexpr std::array kLlamaLayer = {
    Pair{"input_layernorm", "attn_norm"},    Pair{"self_attn.q_proj", "attn_q"},
    Pair{"self_attn.k_proj", "attn_k"},      Pair{"self_attn.v_proj", "attn_v"},
    Pair{"self_attn.o_proj", "attn_output"}, Pair{"post_attention_layernorm", "ffn_norm"},
    Pair{"mlp.gate_proj", "ffn_gate"},       Pair{"mlp.up_proj", "ffn_up"},
    Pair{"mlp.down_proj", "ffn_down"}};
constexpr std::array kOutside = {Pair{"wte", "token_embd"},   Pair{"wpe", "position_embd"},
                                 Pair{"ln_f", "output_norm"}, Pair{"embed_tokens", "token_embd"},
                                 Pair{"norm", "output_norm"}, Pair{"lm_head", "output"}};

std::string_view translated(std::span<const Pair> pairs, std::string_view theirs, std::string_view whole) {
  for (const auto& [from, to] : pairs)
    if (from == theirs) return to;
  PARTITA_CHECK(false, "no GGUF name for {}", whole);
  return "";
}

// "transformer.h.0.ln_1.bias" -> "blk.0.attn_norm.bias"
std::string gguf_name(std::string_view name, ModelKind kind) {
  const size_t ending = name.rfind('.');
  std::string_view stem = name.substr(0, ending);
  if (stem.starts_with(hf_prefix(kind))) stem.remove_prefix(hf_prefix(kind).size());
  const std::string layers = fmt::format("{}.", hf_layers(kind));
  if (!stem.starts_with(layers)) return fmt::format("{}{}", translated(kOutside, stem, name), name.substr(ending));
  stem.remove_prefix(layers.size());
  const size_t number = stem.find('.');
  const auto pairs = kind == ModelKind::gpt2 ? std::span<const Pair>(kGpt2Layer) : std::span<const Pair>(kLlamaLayer);
  return fmt::format("blk.{}.{}{}", stem.substr(0, number), translated(pairs, stem.substr(number + 1), name),
                     name.substr(ending));
}

bool is_turned(std::string_view name) { return name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight"); }

}  // namespace

std::vector<GgufTensor> gguf_tensors(const ModelConfig& model) {
  std::vector<GgufTensor> tensors;
  for (const HfParameter& p : hf_parameters(model)) {
    for (const HfPiece& piece : p.pieces) {
      const Box box = box_of(p.shape, piece);
      GgufTensor tensor{.name = gguf_name(piece.name, model.kind),
                        .hugging_face = piece.name,
                        .parameter = {.name = p.name, .shape = p.shape},
                        .box = box,
                        .shape = {box.columns}};
      if (p.shape.size() > 1) tensor.shape = {box.rows, box.columns};
      if (is_turned(tensor.name)) tensor.interleaved_head_width = model.head_size();
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

int64_t row_of_interleaved(int64_t row, int64_t head_width) {
  const int64_t head = row / head_width, channel = row % head_width;
  return head * head_width + channel % 2 * (head_width / 2) + channel / 2;
}

GgufType gguf_type(const GgufTensor& tensor, const StoredTypes& types, bool q8_0) {
  if (tensor.shape.size() == 1 || tensor.name == "position_embd.weight") return GgufType::f32;
  if (q8_0) return tensor.shape[1] % kQ8BlockElements == 0 ? GgufType::q8_0 : GgufType::f16;
  switch (types.of(tensor.hugging_face)) {
    case ElementType::f32:
      return GgufType::f32;
    case ElementType::f16:
      return GgufType::f16;
    case ElementType::bf16:
      return GgufType::bf16;
    default:
      fail("weights are not exported as {}: use fp32, fp16 or bf16", name_of(types.of(tensor.hugging_face)));
  }
}

std::vector<float> gguf_rope_divisors(const ModelConfig& m) {
  if (m.kind != ModelKind::llama || m.rope_factor == 1) return {};
  RopeOptions options{.head_width = m.head_size(), .positions = 0, .theta = m.rope_theta};
  std::vector<float> divisors = rope_frequencies(options);
  options.factor = m.rope_factor;
  options.low = m.rope_low_frequency;
  options.high = m.rope_high_frequency;
  options.original_length = m.rope_original_length;
  const std::vector<float> scaled = rope_frequencies(options);
  for (size_t i = 0; i < divisors.size(); ++i) divisors[i] /= scaled[i];
  return divisors;
}

}  // namespace partita::internal
