#include "partita/interop/dcp_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/printable.h"
#include "partita/checkpoint/name_list.h"
#include "partita/interop/hf_names.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

// How a checkpoint names the weights. `first`: a weight that every model has.
enum class Scheme : uint8_t { hugging_face, hugging_face_base, meta };
struct Named {
  Scheme scheme;
  ModelKind kind;
  std::string_view first;
};
// Tried in this order: a name of the first kind also ends like one of the second.
constexpr std::array kSchemes = {Named{Scheme::hugging_face, ModelKind::gpt2, "transformer.h.0.ln_1.weight"},
                                 Named{Scheme::hugging_face_base, ModelKind::gpt2, "h.0.ln_1.weight"},
                                 Named{Scheme::hugging_face, ModelKind::llama, "model.layers.0.input_layernorm.weight"},
                                 Named{Scheme::hugging_face_base, ModelKind::llama, "layers.0.input_layernorm.weight"},
                                 Named{Scheme::meta, ModelKind::llama, "layers.0.attention_norm.weight"}};

// Modules that wrap another one, and appear in its names.
constexpr std::array<std::string_view, 3> kWrappers = {"_orig_mod.", "_checkpoint_wrapped_module.",
                                                       "_fsdp_wrapped_module."};
// State that is not weights, by the first part of its name.
constexpr std::array<std::string_view, 12> kOtherState = {"optimizer",     "optimizers", "optim",       "lr_scheduler",
                                                          "lr_schedulers", "scheduler",  "dataloader",  "train_state",
                                                          "rng",           "rng_state",  "extra_state", "step"};

bool is_other_state(std::string_view name) {
  return std::ranges::find(kOtherState, name.substr(0, name.find('.'))) != kOtherState.end();
}

std::string without_wrappers(std::string name) {
  for (const std::string_view wrapper : kWrappers)
    for (size_t at = name.find(wrapper); at != std::string::npos; at = name.find(wrapper, at)) {
      if (at == 0 || name[at - 1] == '.')
        name.erase(at, wrapper.size());
      else
        at += wrapper.size();
    }
  return name;
}

// The shortest P for which P + name is a tensor; P is empty or ends with a dot.
std::optional<std::string> prefix_of(const ChunkedTensors& tensors, std::string_view name) {
  std::optional<std::string> shortest;
  for (const auto& [full, tensor] : tensors) {
    if (!full.ends_with(name) || is_other_state(full)) continue;
    const std::string prefix = full.substr(0, full.size() - name.size());
    if (!prefix.empty() && prefix.back() != '.') continue;
    if (!shortest || prefix.size() < shortest->size()) shortest = prefix;
  }
  return shortest;
}

// Meta's name for a weight with Hugging Face's name.
std::string meta_name(std::string name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kReplaced = {{
      {"model.embed_tokens.", "tok_embeddings."},
      {"model.layers.", "layers."},
      {"model.norm.", "norm."},
      {"lm_head.", "output."},
      {".self_attn.q_proj.", ".attention.wq."},
      {".self_attn.k_proj.", ".attention.wk."},
      {".self_attn.v_proj.", ".attention.wv."},
      {".self_attn.o_proj.", ".attention.wo."},
      {".mlp.gate_proj.", ".feed_forward.w1."},
      {".mlp.down_proj.", ".feed_forward.w2."},
      {".mlp.up_proj.", ".feed_forward.w3."},
      {".input_layernorm.", ".attention_norm."},
      {".post_attention_layernorm.", ".ffn_norm."},
  }};
  for (const auto& [theirs, metas] : kReplaced)
    if (const size_t at = name.find(theirs); at != std::string::npos) name.replace(at, theirs.size(), metas);
  return name;
}

ChunkedPiece same_rows(const HfPiece& p, std::string name) {
  return {.name = std::move(name), .shape = p.shape, .row = p.row, .rows = p.rows, .transposed = p.transposed};
}

// Meta's rotary positions turn channels 2i and 2i + 1 of a head together, ours (and Hugging Face's) i and i + half.
void add_interleaved(std::vector<ChunkedPiece>& pieces, const HfPiece& p, const std::string& name, int64_t head) {
  const int64_t half = head / 2;
  for (int64_t row = 0; row < p.rows; row += half)
    pieces.push_back({.name = name,
                      .shape = p.shape,
                      .row = p.row + row,
                      .rows = half,
                      .their_row = row / head * head + row % head / half,
                      .step = 2});
}

ChunkedNaming naming_of(const ModelConfig& model, Scheme scheme) {
  ChunkedNaming naming;
  const auto named = [&](const std::string& hf) {
    if (scheme == Scheme::meta) return meta_name(hf);
    const bool bare = scheme == Scheme::hugging_face_base && hf.starts_with(hf_prefix(model.kind));
    return bare ? hf.substr(hf_prefix(model.kind).size()) : hf;
  };
  for (const HfParameter& p : hf_parameters(model)) {
    ChunkedParameter& parameter = naming.parameters.emplace_back(p.name, p.shape, std::vector<ChunkedPiece>());
    for (const HfPiece& piece : p.pieces) {
      const bool rotary = piece.name.ends_with("q_proj.weight") || piece.name.ends_with("k_proj.weight");
      if (scheme == Scheme::meta && rotary)
        add_interleaved(parameter.pieces, piece, named(piece.name), model.head_size());
      else
        parameter.pieces.push_back(same_rows(piece, named(piece.name)));
    }
  }
  if (model.has_tied_head()) {
    naming.copy = named(std::string(kHfHead));
    naming.original = naming.parameters[0].pieces[0].name;
  }
  naming.is_ignorable = [kind = model.kind](std::string_view name) {
    return is_other_state(name) || is_hf_buffer(name, kind) || name == "freqs_cis";
  };
  return naming;
}

}  // namespace

DcpModel find_dcp_model(const ModelConfig& model, ChunkedTensors stored, const fs::path& path) {
  ChunkedTensors tensors;
  for (auto& [name, tensor] : stored) {
    std::string bare = without_wrappers(name);
    if (!tensors.emplace(bare, std::move(tensor)).second)
      fail("{} holds '{}' twice, with and without a wrapper such as {}", path.string(), printable_line(bare),
           kWrappers[0]);
  }
  for (const Named& named : kSchemes) {
    if (named.kind != model.kind) continue;
    const std::optional<std::string> prefix = prefix_of(tensors, named.first);
    if (!prefix) continue;
    DcpModel found{{}, naming_of(model, named.scheme), {}};
    std::vector<std::string> others;
    for (auto& [name, tensor] : tensors) {
      if (name.starts_with(*prefix))
        found.tensors.emplace(name.substr(prefix->size()), std::move(tensor));
      else if (!is_other_state(name))
        others.push_back(printable_line(name));
    }
    std::string text;
    append_list(text, fmt::format("only the tensors of {}* are read", *prefix), others);
    if (!others.empty()) found.warnings.push_back(fmt::format("{}: {} are not", path.string(), text));
    return found;
  }
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(printable_line(name));
  std::string text;
  append_list(text, "it holds", names);
  const std::string_view first = std::ranges::find(kSchemes, model.kind, &Named::kind)->first;
  fail("{} holds no {} under names that are known, such as '{}' with or without a prefix: {}", path.string(),
       name_of(model.kind), first, text);
}

}  // namespace partita::internal
