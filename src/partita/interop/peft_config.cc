#include "partita/interop/peft_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "partita/base/error.h"
#include "partita/interop/json_fields.h"

namespace partita::internal {
namespace {

using nlohmann::json;

constexpr FieldUse kRead = FieldUse::read, kHarmless = FieldUse::harmless, kOnly = FieldUse::only;
constexpr std::string_view kMerge =
    "load and merge the adapters with PEFT (merge_and_unload), save the model and use that";

constexpr auto kFields = std::to_array<KnownField>({
    {"peft_type", kRead},
    {"r", kRead},
    {"lora_alpha", kRead},
    {"lora_dropout", kRead},
    {"target_modules", kRead},
    {"init_lora_weights", kRead},
    {"base_model_name_or_path", kRead},
    // Fields that do not affect trained adapters. fan_in_fan_out tells PEFT whether the base matrix is transposed
    // (GPT-2), which is known here. Settings of individual initializations depend on init_lora_weights.
    {"auto_mapping", kHarmless},
    {"revision", kHarmless},
    {"inference_mode", kHarmless},
    {"task_type", kHarmless},
    {"peft_version", kHarmless},
    {"megatron_core", kHarmless},
    {"qalora_group_size", kHarmless},
    {"fan_in_fan_out", kHarmless},
    {"runtime_config", kHarmless},
    {"ensure_weight_tying", kHarmless},
    {"eva_config", kHarmless},
    {"loftq_config", kHarmless},
    {"corda_config", kHarmless},
    {"lora_ga_config", kHarmless},
    // Fields that would affect them.
    {"bias", kOnly, "\"none\"", kMerge},
    {"use_dora", kOnly, "false", kMerge},
    {"use_rslora", kOnly, "false", kMerge},
    {"use_qalora", kOnly, "false", kMerge},
    {"use_bdlora", kOnly, "false", kMerge},
    {"lora_bias", kOnly, "false", kMerge},
    {"modules_to_save", kOnly, "false", kMerge},
    {"rank_pattern", kOnly, "false", kMerge},
    {"alpha_pattern", kOnly, "false", kMerge},
    {"layers_to_transform", kOnly, "false", kMerge},
    {"layers_pattern", kOnly, "false", kMerge},
    {"layer_replication", kOnly, "false", kMerge},
    {"exclude_modules", kOnly, "false", kMerge},
    {"trainable_token_indices", kOnly, "false", kMerge},
    {"target_parameters", kOnly, "false", kMerge},
    {"megatron_config", kOnly, "false", "adapters of Megatron's linears are not built"},
    {"alora_invocation_tokens", kOnly, "false", "adapters that begin at certain tokens are not built"},
    {"arrow_config", kOnly, "false", "routing between adapters is not built"},
    {"velora_config", kOnly, "false", kMerge},
    {"kasa_config", kOnly, "false", kMerge},
    {"monteclora_config", kOnly, "false", kMerge},
});

// Initializations that leave the base unchanged, so that trained adapters are plain LoRA. PEFT's other ones (pissa,
// pissa_niter_N, olora, corda, loftq, lora_ga) modify the base's matrices before training, and the adapters only fit
// those.
constexpr std::array kPlainInitializations = {"gaussian", "eva", "orthogonal", "mica"};

void check_initialization(const JsonFields& fields) {
  const json& value = fields.raw("init_lora_weights");
  if (value.is_null() || value.is_boolean()) return;
  if (value.is_string() &&
      std::ranges::find(kPlainInitializations, value.get<std::string>()) != kPlainInitializations.end())
    return;
  fields.refuse("init_lora_weights", fmt::format("true, false, {}", fmt::join(kPlainInitializations, ", ")),
                "others change the base's matrices before training, and the adapters fit only those: convert them to "
                "plain LoRA with PEFT (save_pretrained(..., path_initial_model_for_weight_conversion=...)), or merge "
                "them there (merge_and_unload), save the model and use that");
}

std::string join_targets(const JsonFields& fields) {
  const json& value = fields.raw("target_modules");
  const bool is_list = value.is_array() && !value.empty() &&
                       std::ranges::all_of(value, [](const json& item) { return item.is_string(); });
  if (!is_list) fields.refuse("target_modules", "a list of names of linears (\"q_proj\")");
  return fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ","));
}

std::string_view last_word(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// "q_proj" if that matches only adapted modules, "mlp.c_proj" if the short name would match more.
std::vector<std::string> target_names(const LoraConfig& lora, ModelKind kind) {
  const std::vector<LoraTarget> adapted = adapted_targets(lora, kind), all = lora_targets(kind);
  std::vector<std::string> names;
  for (const LoraTarget& target : adapted) {
    const std::string_view word = last_word(target.hugging_face);
    const auto has_word = [&](const LoraTarget& t) { return last_word(t.hugging_face) == word; };
    const bool whole = std::ranges::count_if(adapted, has_word) == std::ranges::count_if(all, has_word);
    const std::string name(whole ? word : target.hugging_face);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string base_of(const json& root) {
  const auto found = root.find("base_model_name_or_path");
  return found != root.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::span<const KnownField> peft_fields() { return kFields; }

PeftConfig parse_peft_config(std::string_view text, const std::filesystem::path& path, ModelKind kind) {
  const json root = parse_json_object(text, path);
  const JsonFields fields(root, "", path, kFields);
  if (fields.raw("peft_type") != "LORA") fields.refuse("peft_type", "\"LORA\"", kMerge);
  fields.require_supported();
  check_initialization(fields);
  PeftConfig peft;
  peft.base = base_of(root);
  peft.lora.rank = fields.integer("r", 8);
  peft.lora.alpha = fields.number("lora_alpha", 8.0);
  peft.lora.dropout = fields.number("lora_dropout", 0.0);
  peft.lora.targets = join_targets(fields);
  fields.refuse_unknown(peft.warnings);
  if (peft.lora.rank < 1) fields.refuse("r", "a rank of at least 1");
  try {
    validate(peft.lora, kind);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  return peft;
}

std::string peft_base(std::string_view text, const std::filesystem::path& path) {
  return base_of(parse_json_object(text, path));
}

std::string peft_config_text(const LoraConfig& lora, ModelKind kind, std::string_view base) {
  // PEFT writes a whole alpha as an integer.
  const bool whole = lora.alpha == static_cast<double>(static_cast<int64_t>(lora.alpha));
  const json root = {{"peft_type", "LORA"},
                     {"task_type", "CAUSAL_LM"},
                     {"base_model_name_or_path", base.empty() ? json() : json(base)},
                     {"r", lora.rank},
                     {"lora_alpha", whole ? json(static_cast<int64_t>(lora.alpha)) : json(lora.alpha)},
                     {"lora_dropout", lora.dropout},
                     {"target_modules", target_names(lora, kind)},
                     {"bias", "none"},
                     {"fan_in_fan_out", kind == ModelKind::gpt2},
                     {"inference_mode", true},
                     {"use_dora", false},
                     {"use_rslora", false},
                     {"modules_to_save", nullptr}};
  return root.dump(2) + "\n";
}

}  // namespace partita::internal
