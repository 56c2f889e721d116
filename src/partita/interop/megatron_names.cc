#include "partita/interop/megatron_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "partita/interop/hf_names.h"

namespace partita::internal {
namespace {

constexpr const char *kTable = "embedding.word_embeddings.weight", *kHead = "output_layer.weight";

struct Style {
  bool stacked = false;  // the layers, in one tensor
  bool separate_norms = false;
  bool split_gate = false;
};

Style style_of(const ChunkedTensors& tensors) {
  Style style;
  for (const auto& [name, tensor] : tensors) {
    if (!name.starts_with(kMegatronLayers)) continue;
    if (name == "decoder.layers.self_attention.linear_qkv.weight") style.stacked = true;
    if (name.ends_with("input_layernorm.weight")) style.separate_norms = true;
    if (name.ends_with("linear_fc1.weight_w")) style.split_gate = true;
  }
  return style;
}

class Builder {
 public:
  Builder(const ModelConfig& model, Style style) : m_(model), style_(style) {}

  std::vector<ChunkedParameter> build() {
    for (const HfParameter& p : hf_parameters(m_)) {
      parameters_.push_back({p.name, p.shape, {}});
      add_pieces(parameters_.back());
    }
    return std::move(parameters_);
  }

 private:
  void add_pieces(ChunkedParameter& p) const {
    constexpr std::string_view kOurLayers = "layers.";
    if (p.name.starts_with(kOurLayers)) {
      const size_t dot = p.name.find('.', kOurLayers.size());
      return add_layer(p, std::stoll(p.name.substr(kOurLayers.size())), p.name.substr(dot + 1));
    }
    constexpr std::array<std::pair<std::string_view, const char*>, 5> kNames = {
        {{"embedding.token.weight", kTable},
         {"embedding.position.weight", "embedding.position_embeddings.weight"},
         {"final_norm.weight", "decoder.final_layernorm.weight"},
         {"final_norm.bias", "decoder.final_layernorm.bias"},
         {"head.weight", kHead}}};
    const auto found = std::ranges::find(kNames, p.name, [](const auto& item) { return item.first; });
    const bool tokens = found->second == kTable || found->second == kHead;
    p.pieces.push_back({.name = found->second, .shape = p.shape, .rows = p.shape[0], .padded = tokens});
  }

  void add_layer(ChunkedParameter& p, int64_t layer, std::string_view name) const {
    const auto [module, kind] = split(name);
    if (module == "attention.qkv") return add_qkv(p, layer, kind);
    if (module == "mlp.gate_up" && style_.split_gate) {
      const int64_t half = p.shape[0] / 2;
      std::vector<int64_t> shape = {half, p.shape[1]};
      p.pieces.push_back(piece(layer, "mlp.linear_fc1.weight_w", shape, 0, half, 0));
      p.pieces.push_back(piece(layer, "mlp.linear_fc1.weight_v", shape, half, half, 0));
      return;
    }
    p.pieces.push_back(piece(layer, theirs(module, kind), p.shape, 0, p.shape[0], 0));
  }

  // "attention.output.weight" -> "attention.output", "weight"
  static std::pair<std::string_view, std::string_view> split(std::string_view name) {
    const size_t dot = name.rfind('.');
    return {name.substr(0, dot), name.substr(dot + 1)};
  }

  [[nodiscard]] std::string theirs(std::string_view module, std::string_view kind) const {
    if (module == "attention.norm")
      return style_.separate_norms ? fmt::format("input_layernorm.{}", kind)
                                   : fmt::format("self_attention.linear_qkv.layer_norm_{}", kind);
    if (module == "mlp.norm")
      return style_.separate_norms ? fmt::format("pre_mlp_layernorm.{}", kind)
                                   : fmt::format("mlp.linear_fc1.layer_norm_{}", kind);
    const char* linear = module == "attention.output" ? "self_attention.linear_proj"
                         : module == "mlp.down"       ? "mlp.linear_fc2"
                                                      : "mlp.linear_fc1";
    return fmt::format("{}.{}", linear, kind);
  }

  [[nodiscard]] ChunkedPiece piece(int64_t layer, const std::string& name, std::vector<int64_t> shape, int64_t row,
                                   int64_t rows, int64_t their_row) const {
    ChunkedPiece piece{.shape = std::move(shape), .row = row, .rows = rows, .their_row = their_row};
    if (style_.stacked) {
      piece.name = std::string(kMegatronLayers) + name;
      piece.layer = layer;
      piece.shape.insert(piece.shape.begin(), m_.layers);
    } else {
      piece.name = fmt::format("{}{}.{}", kMegatronLayers, layer, name);
    }
    return piece;
  }

  void add_qkv(ChunkedParameter& p, int64_t layer, std::string_view kind) const {
    const std::string name = fmt::format("self_attention.linear_qkv.{}", kind);
    const int64_t groups = m_.key_value_heads(), head = m_.head_size(), queries = m_.heads / groups * head;
    const int64_t keys = m_.heads * head, values = keys + groups * head;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = g * (queries + 2 * head);
      p.pieces.push_back(piece(layer, name, p.shape, g * queries, queries, first));
      p.pieces.push_back(piece(layer, name, p.shape, keys + g * head, head, first + queries));
      p.pieces.push_back(piece(layer, name, p.shape, values + g * head, head, first + queries + head));
    }
  }

  const ModelConfig& m_;
  Style style_;
  std::vector<ChunkedParameter> parameters_;
};

// Extra state of Transformer Engine (fp8 scales), states of the optimizer and of random numbers.
bool is_ignorable(std::string_view name) {
  return name.ends_with("_extra_state") || name.starts_with("optimizer.") || name.starts_with("chained_") ||
         name.starts_with("rng_state") || name.starts_with("rerun_state_machine_state") ||
         name.ends_with("rotary_pos_emb.inv_freq");
}

}  // namespace

ChunkedNaming megatron_naming(const ModelConfig& model, const ChunkedTensors& tensors) {
  ChunkedNaming naming{.parameters = Builder(model, style_of(tensors)).build(), .is_ignorable = is_ignorable};
  if (model.has_tied_head()) {
    naming.copy = kHead;
    naming.original = kTable;
  }
  return naming;
}

std::string megatron_core_name(std::string name) {
  constexpr std::string_view kOld = "language_model.";
  if (name == "word_embeddings_for_head.weight") return kHead;
  if (!name.starts_with(kOld)) return name;
  name.erase(0, kOld.size());
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplaced = {{
      {"encoder.", "decoder."},
      {"transformer.", "decoder."},
      {".final_norm.", ".final_layernorm."},
      {".input_norm.", ".input_layernorm."},
      {".post_attention_norm.", ".pre_mlp_layernorm."},
      {".post_attention_layernorm.", ".pre_mlp_layernorm."},
      {".attention.", ".self_attention."},
      {".query_key_value.", ".linear_qkv."},
      {".self_attention.dense.", ".self_attention.linear_proj."},
      {".dense_h_to_4h.", ".linear_fc1."},
      {".dense_4h_to_h.", ".linear_fc2."},
  }};
  for (const auto& [old, core] : kReplaced)
    if (const size_t at = name.find(old); at != std::string::npos) name.replace(at, old.size(), core);
  return name;
}

MegatronCut megatron_cut(std::string_view name, bool gated) {
  if (name == kTable || name == kHead) return MegatronCut::rows;
  if (name.ends_with(".linear_qkv.weight") || name.ends_with(".linear_qkv.bias")) return MegatronCut::rows;
  if (name.ends_with(".linear_fc1.weight") || name.ends_with(".linear_fc1.bias"))
    return gated ? MegatronCut::gate_up_rows : MegatronCut::rows;
  if (name.ends_with(".linear_proj.weight") || name.ends_with(".linear_fc2.weight")) return MegatronCut::columns;
  return MegatronCut::none;
}

}  // namespace partita::internal
