#include "partita/interop/hf_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/interop/hf_fields.h"
#include "partita/interop/json_fields.h"

namespace partita::internal {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kLargestWidth = INT64_MAX / 8;  // so that four times it does not overflow
constexpr std::array kTokens = {"bos_token_id", "eos_token_id", "pad_token_id"};

// All equal x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
constexpr std::array kTanhGelu = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh", "gelu_accurate"};
constexpr std::array kSilu = {"silu", "swish"};  // x / (1 + exp(-x))

constexpr std::array kGpt2Architectures = {"GPT2LMHeadModel", "GPT2Model"};
constexpr std::array kLlamaArchitectures = {"LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"};

void check_architecture(const JsonFields& fields, std::span<const char* const> allowed) {
  const json& value = fields.raw("architectures");
  if (says_nothing(value)) return;
  const bool known = value.is_array() && value.size() == 1 && value[0].is_string() &&
                     std::ranges::find(allowed, value[0].get<std::string>()) != allowed.end();
  if (!known) fields.refuse("architectures", fmt::format("[\"{}\"]", fmt::join(allowed, "\"] or [\"")));
}

TiedHead tied(bool yes) { return yes ? TiedHead::yes : TiedHead::no; }

// A size that has two names, whose values must agree.
int64_t size_of(const JsonFields& fields, const char* name, const char* other, int64_t otherwise) {
  const int64_t size = fields.integer(name, fields.integer(other, otherwise));
  if (fields.has(other) && fields.integer(other, 0) != size)
    fields.refuse(other, fmt::format("{}, the value of {}", size, name));
  return size;
}

ModelConfig parse_gpt2(const JsonFields& fields) {
  check_architecture(fields, kGpt2Architectures);
  fields.require_one_of("activation_function", kTanhGelu);
  ModelConfig m;
  m.kind = ModelKind::gpt2;
  m.vocab_size = fields.integer("vocab_size", 50257);
  m.max_length = size_of(fields, "n_positions", "max_position_embeddings", 1024);
  m.hidden_size = size_of(fields, "n_embd", "hidden_size", 768);
  m.layers = size_of(fields, "n_layer", "num_hidden_layers", 12);
  m.heads = size_of(fields, "n_head", "num_attention_heads", 12);
  m.ffn_hidden_size = fields.has("n_inner") ? fields.integer("n_inner", 0) : 4 * std::min(m.hidden_size, kLargestWidth);
  m.dropout = fields.number("resid_pdrop", 0.1);
  m.embedding_dropout = fields.number("embd_pdrop", 0.1);
  m.attention_dropout = fields.number("attn_pdrop", 0.1);
  m.norm_epsilon = fields.number("layer_norm_epsilon", 1e-5);
  m.init_std = fields.number("initializer_range", 0.02);
  m.tied_head = tied(fields.boolean("tie_word_embeddings", true));
  return m;
}

// Whether both models rotate queries and keys by the same angles.
bool same_rope(const ModelConfig& a, const ModelConfig& b) {
  if (a.rope_theta != b.rope_theta || a.rope_factor != b.rope_factor) return false;
  return a.rope_factor == 1 ||
         (a.rope_low_frequency == b.rope_low_frequency && a.rope_high_frequency == b.rope_high_frequency &&
          a.rope_original_length == b.rope_original_length);
}

// Parses rope_scaling (transformers 4; "type" until 4.43) or rope_parameters (5; also holds rope_theta).
void parse_rope(const json& object, const char* name, const fs::path& path, ModelConfig& m) {
  if (says_nothing(object)) return;
  if (!object.is_object()) fail("{}: {} is {}, expected an object", path.string(), name, json_excerpt(object));
  const JsonFields rope(object, std::string(name) + ".", path, hf_rope_fields());
  m.rope_theta = rope.number("rope_theta", m.rope_theta);
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  constexpr std::array kTypes = {"default", "llama3"};
  rope.require_one_of(key, kTypes);
  rope.require_supported();
  if (rope.raw(key) == "llama3") {
    m.rope_factor = rope.number("factor", std::nullopt);
    m.rope_low_frequency = rope.number("low_freq_factor", std::nullopt);
    m.rope_high_frequency = rope.number("high_freq_factor", std::nullopt);
    m.rope_original_length = rope.integer("original_max_position_embeddings", std::nullopt);
  } else if (!rope.has(key) && rope.has("factor")) {
    fail("{}: {} has a factor but no rope_type: add it, supported: default, llama3", path.string(), name);
  }
  std::vector<std::string> bookkeeping;
  rope.refuse_unknown(bookkeeping);
}

ModelConfig parse_llama(const JsonFields& fields, const fs::path& path) {
  check_architecture(fields, kLlamaArchitectures);
  fields.require_one_of("hidden_act", kSilu);
  ModelConfig m;
  m.kind = ModelKind::llama;
  m.vocab_size = fields.integer("vocab_size", 32000);
  m.max_length = fields.integer("max_position_embeddings", 2048);
  m.hidden_size = fields.integer("hidden_size", 4096);
  m.layers = fields.integer("num_hidden_layers", 32);
  m.heads = fields.integer("num_attention_heads", 32);
  m.kv_heads = fields.integer("num_key_value_heads", m.heads);
  m.head_width = fields.integer("head_dim", 0);
  m.ffn_hidden_size = fields.integer("intermediate_size", 11008);
  m.attention_dropout = fields.number("attention_dropout", 0.0);
  m.norm_epsilon = fields.number("rms_norm_eps", 1e-6);
  m.init_std = fields.number("initializer_range", 0.02);
  m.tied_head = tied(fields.boolean("tie_word_embeddings", false));
  m.rope_theta = fields.number("rope_theta", 10000.0);
  const json &scaling = fields.raw("rope_scaling"), &parameters = fields.raw("rope_parameters");
  parse_rope(parameters, "rope_parameters", path, m);
  // The older field may be present too, for older programs; theta is then outside of it.
  ModelConfig older = m;
  older.rope_factor = ModelConfig().rope_factor;
  parse_rope(scaling, "rope_scaling", path, older);
  if (!says_nothing(scaling) && !says_nothing(parameters) && !same_rope(m, older))
    fail("{}: rope_scaling {} contradicts rope_parameters {}: keep the one that the model was trained with",
         path.string(), json_excerpt(scaling), json_excerpt(parameters));
  return says_nothing(scaling) ? m : older;
}

// Explicit zeros must not be taken for ModelConfig's "use the default".
void require_positive(const ModelConfig& m, const fs::path& path) {
  if (m.vocab_size < 1 || m.ffn_hidden_size < 1 || (m.kind == ModelKind::llama && m.kv_heads < 1))
    fail("{}: the vocabulary of {}, the MLP's width of {} and {} key/value heads must be at least 1", path.string(),
         m.vocab_size, m.ffn_hidden_size, m.key_value_heads());
}

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::fp16:
      return "float16";
    default:
      fail("a model's weights cannot be stored as {}: use fp32, bf16 or fp16", name_of(dtype));
  }
}

json gpt2_json(const ModelConfig& m) {
  return {{"model_type", "gpt2"},
          {"architectures", {"GPT2LMHeadModel"}},
          {"activation_function", "gelu_new"},
          {"vocab_size", m.vocab_size},
          {"n_positions", m.max_length},
          {"n_ctx", m.max_length},  // dropped by transformers 5, but required by converters to other formats
          {"n_embd", m.hidden_size},
          {"n_layer", m.layers},
          {"n_head", m.heads},
          {"n_inner", m.ffn_size() == 4 * m.hidden_size ? json() : json(m.ffn_size())},
          {"resid_pdrop", m.dropout},
          {"embd_pdrop", m.embedding_dropout},
          {"attn_pdrop", m.attention_dropout},
          {"layer_norm_epsilon", m.norm_epsilon},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.has_tied_head()}};
}

json llama_json(const ModelConfig& m) {
  json scaling;
  if (m.rope_factor != 1)
    scaling = {{"rope_type", "llama3"},
               {"factor", m.rope_factor},
               {"low_freq_factor", m.rope_low_frequency},
               {"high_freq_factor", m.rope_high_frequency},
               {"original_max_position_embeddings", m.rope_original_length}};
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"vocab_size", m.vocab_size},
          {"max_position_embeddings", m.max_length},
          {"hidden_size", m.hidden_size},
          {"num_hidden_layers", m.layers},
          {"num_attention_heads", m.heads},
          {"num_key_value_heads", m.key_value_heads()},
          {"head_dim", m.head_size()},
          {"intermediate_size", m.ffn_size()},
          {"attention_dropout", m.attention_dropout},
          {"rms_norm_eps", m.norm_epsilon},
          {"initializer_range", m.init_std},
          {"tie_word_embeddings", m.has_tied_head()},
          {"rope_theta", m.rope_theta},
          {"rope_scaling", scaling}};
}

}  // namespace

HfConfig parse_hf_config(std::string_view text, const fs::path& path) {
  const json root = parse_json_object(text, path);
  const json type = root.value("model_type", json());
  if (type != "gpt2" && type != "llama")
    fail("{}: model_type is {}, supported: \"gpt2\", \"llama\"", path.string(), json_excerpt(type));
  const ModelKind kind = type == "gpt2" ? ModelKind::gpt2 : ModelKind::llama;
  HfConfig hf;
  const JsonFields fields(root, "", path, hf_fields(kind));
  fields.require_supported();
  hf.model = kind == ModelKind::gpt2 ? parse_gpt2(fields) : parse_llama(fields, path);
  for (const char* name : kTokens)
    if (const json& value = fields.raw(name); !value.is_null()) hf.tokens[name] = value;
  fields.report_unknown(hf.warnings);
  require_positive(hf.model, path);
  try {
    validate(hf.model);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return hf;
}

std::string hf_config_text(const ModelConfig& model, DType stored, const json& tokens) {
  json root = model.kind == ModelKind::gpt2 ? gpt2_json(model) : llama_json(model);
  root["torch_dtype"] = torch_name(stored);  // transformers 5 reads it as "dtype"
  root["use_cache"] = true;
  root.update(tokens);
  return root.dump(2) + "\n";
}

}  // namespace partita::internal
