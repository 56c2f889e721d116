#include "partita/interop/megatron_args.h"

#include <fmt/format.h>

#include <array>

#include "partita/base/error.h"
#include "partita/interop/json_fields.h"

namespace partita::internal {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kMoe = "mixtures of experts are not read";
constexpr std::array kFields = {
    KnownField{"num_layers", FieldUse::read}, KnownField{"hidden_size", FieldUse::read},
    KnownField{"ffn_hidden_size", FieldUse::read}, KnownField{"num_attention_heads", FieldUse::read},
    KnownField{"group_query_attention", FieldUse::read}, KnownField{"num_query_groups", FieldUse::read},
    KnownField{"kv_channels", FieldUse::read}, KnownField{"max_position_embeddings", FieldUse::read},
    KnownField{"padded_vocab_size", FieldUse::read}, KnownField{"position_embedding_type", FieldUse::read},
    KnownField{"use_rotary_position_embeddings", FieldUse::read}, KnownField{"rotary_base", FieldUse::read},
    KnownField{"rotary_percent", FieldUse::read}, KnownField{"use_rope_scaling", FieldUse::read},
    KnownField{"rope_scaling_factor", FieldUse::read}, KnownField{"normalization", FieldUse::read},
    KnownField{"norm_epsilon", FieldUse::read}, KnownField{"layernorm_epsilon", FieldUse::read},
    KnownField{"swiglu", FieldUse::read}, KnownField{"bias_gelu_fusion", FieldUse::read},
    KnownField{"openai_gelu", FieldUse::read}, KnownField{"add_bias_linear", FieldUse::read},
    KnownField{"disable_bias_linear", FieldUse::read},
    KnownField{"untie_embeddings_and_output_weights", FieldUse::read}, KnownField{"hidden_dropout", FieldUse::read},
    KnownField{"attention_dropout", FieldUse::read}, KnownField{"init_method_std", FieldUse::read},
    // Other functions.
    KnownField{"num_experts", FieldUse::only, "null", kMoe},
    KnownField{"moe_shared_expert_intermediate_size", FieldUse::only, "null", kMoe},
    KnownField{"add_qkv_bias", FieldUse::only, "false", "biases of q, k and v alone"},
    KnownField{"qk_layernorm", FieldUse::only, "false", "norms of queries and keys"},
    KnownField{"qk_l2_norm", FieldUse::only, "false", "norms of queries and keys"},
    KnownField{"multi_latent_attention", FieldUse::only, "false", "multi-latent attention"},
    KnownField{"attention_output_gate", FieldUse::only, "false", "a gate of the attention's output"},
    KnownField{"window_size", FieldUse::only, "null", "attention within a window"},
    KnownField{"softmax_type", FieldUse::only, "\"vanilla\"", "another softmax"},
    KnownField{"no_rope_freq", FieldUse::only, "null", "layers without positions"},
    KnownField{"rotary_interleaved", FieldUse::only, "false", "pairs of neighboring channels"},
    KnownField{"rotary_seq_len_interpolation_factor", FieldUse::only, "null", "interpolated positions"},
    KnownField{"apply_layernorm_1p", FieldUse::only, "false", "norm weights stored less 1"},
    KnownField{"apply_residual_connection_post_layernorm", FieldUse::only, "false", "residuals after the norm"},
    KnownField{"squared_relu", FieldUse::only, "false", "another activation"},
    KnownField{"quick_geglu", FieldUse::only, "false", "another activation"},
    KnownField{"activation_func_clamp_value", FieldUse::only, "null", "a clamped activation"},
    KnownField{"glu_linear_offset", FieldUse::only, "0", "an offset of the gated linear unit"},
    KnownField{"spec", FieldUse::only, "null", "layers of a specification of its own"},
    KnownField{"mtp_num_layers", FieldUse::only, "null", "prediction of several tokens"},
    KnownField{"is_hybrid_model", FieldUse::only, "false", "layers other than attention"},
    KnownField{"hybrid_layer_pattern", FieldUse::only, "null", "layers other than attention"},
    KnownField{"hybrid_override_pattern", FieldUse::only, "null", "layers other than attention"},
    KnownField{"linear_attention_freq", FieldUse::only, "null", "layers other than attention"},
    KnownField{"heterogeneous_layers_config_path", FieldUse::only, "null", "layers of different shapes"},
    KnownField{"heterogeneous_layers_config_encoded_json", FieldUse::only, "null", "layers of different shapes"}};

// Error unless it is true (false), as in the model that the other arguments ask for.
void require(const JsonFields& fields, const char* name, bool wanted, bool otherwise, const char* why) {
  if (fields.boolean(name, otherwise) != wanted) fields.refuse(name, wanted ? "true" : "false", why);
}

bool has_biases(const JsonFields& fields) {
  return fields.boolean("add_bias_linear", !fields.boolean("disable_bias_linear", false));
}

void read_gpt(const JsonFields& fields, ModelConfig& m) {
  constexpr std::array kNorms = {"LayerNorm"};
  fields.require_one_of("normalization", kNorms);
  require(fields, "swiglu", false, false, "with learned positions, as in GPT-2");
  if (!has_biases(fields)) fields.refuse("add_bias_linear", "true", "with learned positions, as in GPT-2");
  // The fused kernel and "OpenAI's" GELU compute it with tanh, the plain one with erf.
  if (!fields.boolean("bias_gelu_fusion", true) && !fields.boolean("openai_gelu", false))
    fields.refuse("bias_gelu_fusion", "true, or openai_gelu",
                  "without both, GELU is exact, and not approximated by tanh");
  if (m.kv_heads != m.heads) fields.refuse("num_query_groups", fmt::format("{}, as many as heads", m.heads));
  m.kv_heads = 0;
  m.kind = ModelKind::gpt2;
  m.dropout = m.embedding_dropout = fields.number("hidden_dropout", 0.1);
}

void read_llama(const JsonFields& fields, ModelConfig& m) {
  constexpr std::array kNorms = {"RMSNorm"};
  if (!fields.has("normalization")) fields.refuse("normalization", "RMSNorm", "with rotary positions, as in Llama");
  fields.require_one_of("normalization", kNorms);
  require(fields, "swiglu", true, false, "with rotary positions, as in Llama");
  if (has_biases(fields)) fields.refuse("add_bias_linear", "false", "with rotary positions, as in Llama");
  if (fields.number("rotary_percent", 1.0) != 1) fields.refuse("rotary_percent", "1", "positions of part of a head");
  m.kind = ModelKind::llama;
  m.dropout = m.embedding_dropout = fields.number("hidden_dropout", 0.1);
  m.rope_theta = fields.number("rotary_base", 10000);
  if (fields.boolean("use_rope_scaling", false)) {
    m.rope_factor = fields.number("rope_scaling_factor", 8);
    m.rope_low_frequency = 1;
    m.rope_high_frequency = 4;
    m.rope_original_length = 8192;
  }
}

}  // namespace

std::span<const KnownField> megatron_fields() { return kFields; }

ModelConfig megatron_model(const json& arguments, const fs::path& path) {
  const JsonFields fields(arguments, "args.", path, kFields);
  fields.require_supported();
  ModelConfig m;
  m.layers = fields.integer("num_layers", std::nullopt);
  m.hidden_size = fields.integer("hidden_size", std::nullopt);
  m.heads = fields.integer("num_attention_heads", std::nullopt);
  m.kv_heads = m.heads;
  if (fields.boolean("group_query_attention", false)) m.kv_heads = fields.integer("num_query_groups", std::nullopt);
  m.head_width = fields.integer("kv_channels", 0);
  m.ffn_hidden_size = fields.integer("ffn_hidden_size", std::nullopt);
  m.vocab_size = fields.integer("padded_vocab_size", std::nullopt);
  m.max_length = fields.integer("max_position_embeddings", std::nullopt);
  m.norm_epsilon = fields.number("norm_epsilon", fields.number("layernorm_epsilon", 1e-5));
  m.init_std = fields.number("init_method_std", 0.02);
  m.attention_dropout = fields.number("attention_dropout", 0.1);
  m.tied_head = fields.boolean("untie_embeddings_and_output_weights", false) ? TiedHead::no : TiedHead::yes;
  constexpr std::array kPositions = {"learned_absolute", "rope"};
  fields.require_one_of("position_embedding_type", kPositions);
  const bool rotary =
      fields.raw("position_embedding_type") == "rope" || fields.boolean("use_rotary_position_embeddings", false);
  rotary ? read_llama(fields, m) : read_gpt(fields, m);
  if (m.vocab_size < 1 || m.ffn_hidden_size < 1 || (rotary && m.kv_heads < 1))
    fail("{}: args: the vocabulary of {}, the MLP's width of {} and {} query groups must be at least 1", path.string(),
         m.vocab_size, m.ffn_hidden_size, m.kv_heads);
  try {
    validate(m);
  } catch (const Error& error) {
    fail("{}: args: {}", path.string(), error.what());
  }
  return m;
}

std::string model_differences(const ModelConfig& a, const ModelConfig& b) {
  std::string text;
  const auto compare = [&](std::string_view name, const auto& left, const auto& right) {
    if (left != right) text += fmt::format("{}{} {} and {}", text.empty() ? "" : ", ", name, left, right);
  };
  compare("kind", std::string_view(name_of(a.kind)), std::string_view(name_of(b.kind)));
  compare("layers", a.layers, b.layers);
  compare("hidden_size", a.hidden_size, b.hidden_size);
  compare("heads", a.heads, b.heads);
  compare("kv_heads", a.key_value_heads(), b.key_value_heads());
  compare("head_width", a.head_size(), b.head_size());
  compare("ffn_hidden_size", a.ffn_size(), b.ffn_size());
  compare("tied_head", a.has_tied_head(), b.has_tied_head());
  compare("norm_epsilon", a.norm_epsilon, b.norm_epsilon);
  if (a.kind == ModelKind::gpt2 || b.kind == ModelKind::gpt2) return text;
  compare("rope_theta", a.rope_theta, b.rope_theta);
  compare("rope_factor", a.rope_factor, b.rope_factor);
  if (a.rope_factor == 1 || b.rope_factor == 1) return text;
  compare("rope_low_frequency", a.rope_low_frequency, b.rope_low_frequency);
  compare("rope_high_frequency", a.rope_high_frequency, b.rope_high_frequency);
  compare("rope_original_length", a.rope_original_length, b.rope_original_length);
  return text;
}

}  // namespace partita::internal
