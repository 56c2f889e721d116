#include "partita/train/run_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr std::array kKinds = {"gpt2", "llama"};  // in the order of ModelKind

nlohmann::json model_json(const ModelConfig& m) {
  return {{"kind", kKinds[static_cast<size_t>(m.kind)]},
          {"layers", m.layers},
          {"hidden_size", m.hidden_size},
          {"heads", m.heads},
          {"kv_heads", m.key_value_heads()},
          {"head_width", m.head_size()},
          {"ffn_hidden_size", m.ffn_size()},
          {"vocab_size", m.vocab_size},
          {"max_length", m.max_length},
          {"tied_head", m.has_tied_head()},
          {"dropout", m.dropout},
          {"embedding_dropout", m.embedding_dropout},
          {"attention_dropout", m.attention_dropout},
          {"init_std", m.init_std},
          {"norm_epsilon", m.norm_epsilon},
          {"rope_theta", m.rope_theta},
          {"rope_factor", m.rope_factor},
          {"rope_low_frequency", m.rope_low_frequency},
          {"rope_high_frequency", m.rope_high_frequency},
          {"rope_original_length", m.rope_original_length}};
}

// Checkpoints from before llama have none of its keys.
template <class T>
void get_optional(const nlohmann::json& json, const char* key, T& value) {
  if (json.contains(key)) json.at(key).get_to(value);
}

ModelConfig model_of(const nlohmann::json& json) {
  ModelConfig m;
  const auto kind = std::ranges::find(kKinds, json.at("kind").get<std::string>());
  if (kind == kKinds.end()) fail("a model of kind {}: this version knows gpt2 and llama", json.at("kind").dump());
  m.kind = static_cast<ModelKind>(kind - kKinds.begin());
  json.at("layers").get_to(m.layers);
  json.at("hidden_size").get_to(m.hidden_size);
  json.at("heads").get_to(m.heads);
  get_optional(json, "kv_heads", m.kv_heads);
  get_optional(json, "head_width", m.head_width);
  json.at("ffn_hidden_size").get_to(m.ffn_hidden_size);
  json.at("vocab_size").get_to(m.vocab_size);
  json.at("max_length").get_to(m.max_length);
  if (json.contains("tied_head")) m.tied_head = json.at("tied_head").get<bool>() ? TiedHead::yes : TiedHead::no;
  json.at("dropout").get_to(m.dropout);
  json.at("embedding_dropout").get_to(m.embedding_dropout);
  json.at("attention_dropout").get_to(m.attention_dropout);
  json.at("init_std").get_to(m.init_std);
  json.at("norm_epsilon").get_to(m.norm_epsilon);
  get_optional(json, "rope_theta", m.rope_theta);
  get_optional(json, "rope_factor", m.rope_factor);
  get_optional(json, "rope_low_frequency", m.rope_low_frequency);
  get_optional(json, "rope_high_frequency", m.rope_high_frequency);
  get_optional(json, "rope_original_length", m.rope_original_length);
  return m;
}

nlohmann::json lora_json(const RunState& s) {
  return {{"rank", s.lora.rank},
          {"alpha", s.lora.alpha},
          {"dropout", s.lora.dropout},
          {"targets", s.lora.targets},
          {"base", s.base.string()}};
}

template <class T>
void expect_same(const std::filesystem::path& folder, const char* name, const T& there, const T& here) {
  if (there != here)
    fail("{} is of another model: {} is {} there and {} here; use its value, or another folder", folder.string(), name,
         there, here);
}

void read_lora(const nlohmann::json& json, RunState& s) {
  json.at("rank").get_to(s.lora.rank);
  json.at("alpha").get_to(s.lora.alpha);
  json.at("dropout").get_to(s.lora.dropout);
  json.at("targets").get_to(s.lora.targets);
  s.base = json.at("base").get<std::string>();
}

}  // namespace

nlohmann::json to_json(const RunState& s) {
  nlohmann::json json = {
      {"step", s.step},           {"consumed_samples", s.consumed_samples}, {"skipped_steps", s.skipped_steps},
      {"nan_steps", s.nan_steps}, {"model", model_json(s.model)},           {"identity", s.identity}};
  if (!s.planned_samples.empty()) json["planned_samples"] = s.planned_samples;
  if (s.loss_scale > 0) json["loss_scale"] = {{"scale", s.loss_scale}, {"clean_steps", s.clean_steps}};
  if (!s.amax_history.empty()) json["amax_history"] = s.amax_history;
  if (s.lora.rank > 0) json["lora"] = lora_json(s);
  if (s.stored_as != StoredTypes{}) json["stored_as"] = to_json(s.stored_as);
  return json;
}

RunState run_state(const nlohmann::json& scalars, const std::filesystem::path& folder) try {
  RunState s;
  scalars.at("step").get_to(s.step);
  scalars.at("consumed_samples").get_to(s.consumed_samples);
  scalars.at("skipped_steps").get_to(s.skipped_steps);
  scalars.at("nan_steps").get_to(s.nan_steps);
  s.model = model_of(scalars.at("model"));
  scalars.at("identity").get_to(s.identity);
  if (scalars.contains("loss_scale")) {
    scalars.at("loss_scale").at("scale").get_to(s.loss_scale);
    scalars.at("loss_scale").at("clean_steps").get_to(s.clean_steps);
  }
  if (scalars.contains("lora")) read_lora(scalars.at("lora"), s);
  get_optional(scalars, "amax_history", s.amax_history);
  get_optional(scalars, "planned_samples", s.planned_samples);
  if (scalars.contains("stored_as")) s.stored_as = stored_types_from(scalars.at("stored_as"));
  return s;
} catch (const nlohmann::json::exception& error) {
  fail("{} is no checkpoint of a training run: {}", folder.string(), error.what());
}

void check_same_function(const ModelConfig& found, const ModelConfig& wanted, const std::filesystem::path& folder) {
  const auto same = [&](const char* name, const auto& there, const auto& here) {
    expect_same(folder, name, there, here);
  };
  const auto kind = [](const ModelConfig& m) { return std::string(kKinds[static_cast<size_t>(m.kind)]); };
  same("model.kind", kind(found), kind(wanted));
  same("model.layers", found.layers, wanted.layers);
  same("model.hidden_size", found.hidden_size, wanted.hidden_size);
  same("model.heads", found.heads, wanted.heads);
  same("model.kv_heads", found.key_value_heads(), wanted.key_value_heads());
  same("model.head_width", found.head_size(), wanted.head_size());
  same("model.ffn_hidden_size", found.ffn_size(), wanted.ffn_size());
  same("model.vocab_size", found.vocab_size, wanted.vocab_size);
  if (wanted.kind != ModelKind::llama) same("model.max_length", found.max_length, wanted.max_length);
  same("model.tied_head", found.has_tied_head(), wanted.has_tied_head());
  same("model.norm_epsilon", found.norm_epsilon, wanted.norm_epsilon);
  if (found.kind != ModelKind::llama) return;
  same("model.rope_theta", found.rope_theta, wanted.rope_theta);
  same("model.rope_factor", found.rope_factor, wanted.rope_factor);
  if (found.rope_factor == 1) return;
  same("model.rope_low_frequency", found.rope_low_frequency, wanted.rope_low_frequency);
  same("model.rope_high_frequency", found.rope_high_frequency, wanted.rope_high_frequency);
  same("model.rope_original_length", found.rope_original_length, wanted.rope_original_length);
}

void check_same_model(const RunState& saved, const ModelConfig& model, const LoraConfig& lora,
                      const std::filesystem::path& folder) {
  check_same_function(saved.model, model, folder);
  expect_same(folder, "lora.rank", saved.lora.rank, lora.rank);
  if (lora.rank == 0) return;
  expect_same(folder, "lora.alpha", saved.lora.alpha, lora.alpha);
  const auto linears = [&](const LoraConfig& l) {
    std::vector<std::string_view> names;
    for (const LoraTarget& target : adapted_targets(l, model.kind)) names.push_back(target.hugging_face);
    return fmt::format("{}", fmt::join(names, ","));
  };
  expect_same(folder, "lora.targets", linears(saved.lora), linears(lora));
}

std::vector<std::string> differences(const std::map<std::string, std::string>& saved,
                                     const std::map<std::string, std::string>& now) {
  std::vector<std::string> list;
  for (const auto& [name, value] : now) {
    const auto before = saved.find(name);
    if (before != saved.end() && before->second != value)
      list.push_back(fmt::format("{} was {} and is {}", name, before->second, value));
  }
  return list;
}

}  // namespace partita
