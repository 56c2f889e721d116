#include "partita/interop/generation_config.h"

#include <array>

#include "partita/base/error.h"
#include "partita/base/json.h"
#include "partita/interop/json_fields.h"

namespace partita {
using namespace internal;
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr FieldUse kRead = FieldUse::read, kHarmless = FieldUse::harmless, kOnly = FieldUse::only;

constexpr auto kFields = std::to_array<KnownField>({
    {"eos_token_id", kRead},
    {"bos_token_id", kRead},
    {"pad_token_id", kRead},
    {"do_sample", kRead},
    {"temperature", kRead},
    {"top_k", kRead},
    {"top_p", kRead},
    {"max_new_tokens", kRead},
    // Fields that change the text, and the value at which they do not.
    {"min_length", kOnly, "0"},
    {"min_new_tokens", kOnly, "0"},
    {"num_beams", kOnly, "1"},
    {"num_beam_groups", kOnly, "1"},
    {"min_p", kOnly, "0.0"},
    {"top_h", kOnly, "1.0"},
    {"typical_p", kOnly, "1.0"},
    {"epsilon_cutoff", kOnly, "0.0"},
    {"eta_cutoff", kOnly, "0.0"},
    {"repetition_penalty", kOnly, "1.0"},
    {"encoder_repetition_penalty", kOnly, "1.0"},
    {"diversity_penalty", kOnly, "0.0"},
    {"penalty_alpha", kOnly, "0.0"},
    {"no_repeat_ngram_size", kOnly, "0"},
    {"encoder_no_repeat_ngram_size", kOnly, "0"},
    {"guidance_scale", kOnly, "1.0"},
    {"num_return_sequences", kOnly, "1"},
    {"stop_strings", kOnly, "false"},
    {"bad_words_ids", kOnly, "false"},
    {"force_words_ids", kOnly, "false"},
    {"constraints", kOnly, "false"},
    {"suppress_tokens", kOnly, "false"},
    {"begin_suppress_tokens", kOnly, "false"},
    {"forced_bos_token_id", kOnly, "null"},
    {"forced_eos_token_id", kOnly, "null"},
    {"forced_decoder_ids", kOnly, "false"},
    {"sequence_bias", kOnly, "false"},
    {"exponential_decay_length_penalty", kOnly, "null"},
    {"token_healing", kOnly, "false"},
    {"watermarking_config", kOnly, "false"},
    {"dola_layers", kOnly, "null"},
    {"max_time", kOnly, "null"},
    // Fields about execution, return values, or only beams or encoders.
    {"max_length", kHarmless},  // of prompt and text together; defaults to 20 if not chosen
    {"early_stopping", kHarmless},
    {"length_penalty", kHarmless},
    {"use_cache", kHarmless},
    {"use_mtp", kHarmless},
    {"cache_implementation", kHarmless},
    {"cache_config", kHarmless},
    {"max_cache_len", kHarmless},
    {"return_legacy_cache", kHarmless},
    {"renormalize_logits", kHarmless},  // sampling normalizes anyway
    {"remove_invalid_values", kHarmless},
    {"output_attentions", kHarmless},
    {"output_hidden_states", kHarmless},
    {"output_scores", kHarmless},
    {"output_logits", kHarmless},
    {"return_dict_in_generate", kHarmless},
    {"decoder_start_token_id", kHarmless},
    {"is_assistant", kHarmless},
    {"num_assistant_tokens", kHarmless},
    {"num_assistant_tokens_schedule", kHarmless},
    {"assistant_confidence_threshold", kHarmless},
    {"assistant_early_exit", kHarmless},
    {"assistant_lookbehind", kHarmless},
    {"assistant_ensemble_weight", kHarmless},
    {"target_lookbehind", kHarmless},
    {"prompt_lookup_num_tokens", kHarmless},
    {"max_matching_ngram_size", kHarmless},
    {"speculation_type", kHarmless},
    {"compile_config", kHarmless},
    {"disable_compile", kHarmless},
    {"continuous_batching_config", kHarmless},
    {"low_memory", kHarmless},
    {"prefill_chunk_size", kHarmless},
    {"transformers_version", kHarmless},
    {"_from_model_config", kHarmless},
    {"_commit_hash", kHarmless},
});

// One token id or several; old files use -1 for none.
std::vector<int64_t> ids_of(const JsonFields& fields, const char* name) {
  const json& value = fields.raw(name);
  std::vector<int64_t> ids;
  for (const json& id : value.is_array() ? value : json::array({value})) {
    if (id.is_null() || id == -1) continue;
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX) fields.refuse(name, "the id of a token, or a list of ids");
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

std::optional<int64_t> id_of(const JsonFields& fields, const char* name) {
  const std::vector<int64_t> ids = ids_of(fields, name);
  if (ids.size() > 1) fields.refuse(name, "the id of a token");
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

}  // namespace

std::span<const KnownField> generation_fields() { return kFields; }

GenerationConfig parse_generation_config(const json& root, const fs::path& path) {
  if (!root.is_object()) fail("{}: expected a JSON object, found {}", path.string(), json_excerpt(root));
  const JsonFields fields(root, "", path, kFields);
  GenerationConfig g;
  g.fields = root;
  g.eos_token_ids = ids_of(fields, "eos_token_id");
  g.bos_token_id = id_of(fields, "bos_token_id");
  g.pad_token_id = id_of(fields, "pad_token_id");
  if (fields.has("do_sample")) g.do_sample = fields.boolean("do_sample", false);
  if (fields.has("temperature")) g.temperature = fields.number("temperature", 1);
  if (g.temperature && *g.temperature < 0) fields.refuse("temperature", "a number of at least 0");
  if (fields.has("top_p")) g.top_p = fields.number("top_p", 1);
  if (g.top_p && !(*g.top_p >= 0 && *g.top_p <= 1)) fields.refuse("top_p", "a number from 0 to 1");
  if (fields.has("top_k")) g.top_k = fields.integer("top_k", 0);
  if (g.top_k && *g.top_k < 0) fields.refuse("top_k", "a whole number of at least 0");
  if (fields.has("max_new_tokens")) g.max_new_tokens = fields.integer("max_new_tokens", 0);
  if (g.max_new_tokens && *g.max_new_tokens < 1) fields.refuse("max_new_tokens", "a whole number of at least 1");
  for (const KnownField& field : kFields) {
    if (field.use != FieldUse::only) continue;
    const auto found = root.find(field.name);
    if (found != root.end() && !is_supported(field, *found))
      g.warnings.push_back(fmt::format("{}: {} = {} is not applied when text is generated", path.string(), field.name,
                                       json_excerpt(*found)));
  }
  fields.report_unknown(g.warnings);
  return g;
}

GenerationConfig read_generation_config(const fs::path& folder, const json& tokens) {
  const fs::path path = folder / kGenerationFile;
  std::error_code ignored;
  json root = fs::exists(path, ignored) ? read_json(path) : json::object();
  if (root.is_object())
    for (const auto& [name, id] : tokens.items())
      if (root.value(name, json()).is_null()) root[name] = id;
  return parse_generation_config(root, path);
}

}  // namespace partita
