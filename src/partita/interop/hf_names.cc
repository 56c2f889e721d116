#include "partita/interop/hf_names.h"

#include <fmt/format.h>

#include <utility>

#include "partita/models/lora.h"
#include "partita/nn/parts.h"

namespace partita::internal {
namespace {

// Builds the list from pairs of our name and Hugging Face's.
class List {
 public:
  explicit List(std::vector<HfParameter>& list) : list_(list) {}

  // One Hugging Face tensor of the same shape.
  void same(std::string ours, std::string theirs, std::vector<int64_t> shape) {
    const int64_t rows = shape[0];
    list_.push_back({std::move(ours), shape, {{std::move(theirs), shape, 0, rows, false}}});
  }
  // GPT-2's Conv1D with its bias, stored as [in, out].
  void conv1d(const std::string& ours, const std::string& theirs, int64_t out, int64_t in) {
    list_.push_back({ours + ".weight", {out, in}, {{theirs + ".weight", {in, out}, 0, out, true}}});
    same(ours + ".bias", theirs + ".bias", {out});
  }
  void layer_norm(const std::string& ours, const std::string& theirs, int64_t width) {
    same(ours + ".weight", theirs + ".weight", {width});
    same(ours + ".bias", theirs + ".bias", {width});
  }
  // Each part of our matrix is a separate matrix in Llama's files.
  void parts(std::string ours, const std::string& layer, const std::vector<ParameterPart>& parts, int64_t in) {
    HfParameter parameter{std::move(ours), {}, {}};
    int64_t row = 0;
    for (const ParameterPart& part : parts) {
      const std::string_view theirs = hugging_face_linear(ModelKind::llama, part.name);
      parameter.pieces.push_back({fmt::format("{}{}.weight", layer, theirs), {part.rows, in}, row, part.rows, false});
      row += part.rows;
    }
    parameter.shape = {row, in};
    list_.push_back(std::move(parameter));
  }

 private:
  std::vector<HfParameter>& list_;
};

void add_gpt2(const ModelConfig& m, List list) {
  const int64_t c = m.hidden_size, f = m.ffn_size();
  list.same("embedding.token.weight", "transformer.wte.weight", {m.vocab_size, c});
  list.same("embedding.position.weight", "transformer.wpe.weight", {m.max_length, c});
  for (int64_t l = 0; l < m.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l), theirs = fmt::format("transformer.h.{}.", l);
    list.layer_norm(ours + "attention.norm", theirs + "ln_1", c);
    list.conv1d(ours + "attention.qkv", theirs + "attn.c_attn", 3 * c, c);
    list.conv1d(ours + "attention.output", theirs + "attn.c_proj", c, c);
    list.layer_norm(ours + "mlp.norm", theirs + "ln_2", c);
    list.conv1d(ours + "mlp.up", theirs + "mlp.c_fc", f, c);
    list.conv1d(ours + "mlp.down", theirs + "mlp.c_proj", c, f);
  }
  list.layer_norm("final_norm", "transformer.ln_f", c);
}

void add_llama(const ModelConfig& m, List list) {
  const int64_t c = m.hidden_size, f = m.ffn_size();
  list.same("embedding.token.weight", "model.embed_tokens.weight", {m.vocab_size, c});
  for (int64_t l = 0; l < m.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l), theirs = fmt::format("model.layers.{}.", l);
    list.same(ours + "attention.norm.weight", theirs + "input_layernorm.weight", {c});
    list.parts(ours + "attention.qkv.weight", theirs, attention_parts(m.heads, m.key_value_heads(), m.head_size()), c);
    list.parts(ours + "attention.output.weight", theirs, {{"attention.output", c}}, m.heads * m.head_size());
    list.same(ours + "mlp.norm.weight", theirs + "post_attention_layernorm.weight", {c});
    list.parts(ours + "mlp.gate_up.weight", theirs, gate_up_parts(f), c);
    list.parts(ours + "mlp.down.weight", theirs, {{"mlp.down", c}}, f);
  }
  list.same("final_norm.weight", "model.norm.weight", {c});
}

}  // namespace

Box box_of(std::span<const int64_t> shape, const HfPiece& piece) {
  Box box = whole_box(shape);
  const bool vector = shape.size() == 1;
  (vector ? box.column : box.row) = piece.row;
  (vector ? box.columns : box.rows) = piece.rows;
  return box;
}

std::vector<HfParameter> hf_parameters(const ModelConfig& model) {
  validate(model);
  std::vector<HfParameter> parameters;
  model.kind == ModelKind::gpt2 ? add_gpt2(model, List(parameters)) : add_llama(model, List(parameters));
  if (!model.has_tied_head())
    List(parameters).same("head.weight", std::string(kHfHead), {model.vocab_size, model.hidden_size});
  return parameters;
}

std::vector<ParameterSpec> parameter_specs(std::span<const HfParameter> parameters, bool adapter) {
  std::vector<ParameterSpec> specs;
  for (const HfParameter& p : parameters) specs.push_back({.name = p.name, .shape = p.shape, .adapter = adapter});
  return specs;
}

std::string_view hf_prefix(ModelKind kind) { return kind == ModelKind::gpt2 ? "transformer." : "model."; }

std::string_view hf_layers(ModelKind kind) { return kind == ModelKind::gpt2 ? "h" : "layers"; }

bool is_hf_buffer(std::string_view name, ModelKind kind) {
  if (kind == ModelKind::gpt2) return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  return name.ends_with("rotary_emb.inv_freq");
}

}  // namespace partita::internal
