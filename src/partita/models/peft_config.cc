#include "partita/models/peft_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "partita/base/error.h"
#include "partita/models/json_fields.h"

namespace partita {
namespace {

using nlohmann::json;

// Change nothing in the adapters' function once they are trained. fan_in_fan_out says how PEFT finds the base's matrix,
// transposed in GPT-2: that is known here.
constexpr std::array kIgnored = {"auto_mapping",      "base_model_name_or_path",
                                 "revision",          "inference_mode",
                                 "init_lora_weights", "task_type",
                                 "peft_version",      "megatron_core",
                                 "qalora_group_size", "fan_in_fan_out",
                                 "runtime_config",    "ensure_weight_tying",
                                 "eva_config",        "loftq_config",
                                 "corda_config"};

// What has no counterpart here: whatever they say, it must be nothing.
constexpr std::array kUnsupported = {"use_dora",
                                     "use_rslora",
                                     "use_qalora",
                                     "use_bdlora",
                                     "lora_bias",
                                     "modules_to_save",
                                     "rank_pattern",
                                     "alpha_pattern",
                                     "layers_to_transform",
                                     "layers_pattern",
                                     "layer_replication",
                                     "exclude_modules",
                                     "trainable_token_indices",
                                     "target_parameters",
                                     "megatron_config",
                                     "alora_invocation_tokens",
                                     "arrow_config",
                                     "kasa_config",
                                     "lora_ga_config",
                                     "monteclora_config",
                                     "velora_config"};

std::string join_targets(JsonFields& fields) {
  const json& value = fields.raw("target_modules");
  const bool is_list = value.is_array() && !value.empty() &&
                       std::ranges::all_of(value, [](const json& item) { return item.is_string(); });
  if (!is_list) fields.refuse("target_modules", "a list of names of linears (\"q_proj\")");
  return fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ","));
}

std::string_view last_word(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// "q_proj" where that names what is adapted and nothing else, "mlp.c_proj" where it would name more.
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

PeftConfig parse_peft_config(std::string_view text, const std::filesystem::path& path, ModelKind kind) {
  const json root = parse_json_object(text, path);
  JsonFields fields(root, "", path);
  if (fields.raw("peft_type") != "LORA")
    fail("{}: peft_type is {}, supported: \"LORA\"", path.string(), fields.raw("peft_type").dump());
  fields.ignore(kIgnored);
  for (const char* name : kUnsupported) fields.require(name, false);
  fields.require("bias", "none");
  PeftConfig peft{.base = base_of(root)};
  peft.lora.rank = fields.integer("r", 8);
  peft.lora.alpha = fields.number("lora_alpha", 8.0);
  peft.lora.dropout = fields.number("lora_dropout", 0.0);
  peft.lora.targets = join_targets(fields);
  fields.check_unknown(peft.warnings);
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
  // PEFT takes a whole alpha as an integer.
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

}  // namespace partita
