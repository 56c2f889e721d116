#include "partita/checkpoint/run_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "partita/base/error.h"
#include "partita/checkpoint/damage.h"
#include "partita/checkpoint/stored_field.h"

namespace partita::internal {
namespace {

nlohmann::json model_json(const ModelConfig& m) {
  return {{"kind", name_of(m.kind)},
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

constexpr int64_t kMostSamples = int64_t{1} << 60, kMostElements = int64_t{1} << 40, kMostRank = 1 << 20;

// Checkpoints older than the llama model lack its keys.
ModelConfig model_of(const StoredField& f) {
  ModelConfig m;
  const auto kind = find_enum<ModelKind>(f.at("kind").text());
  if (!kind) f.at("kind").refuse("gpt2 or llama");
  m.kind = *kind;
  const auto size = [&](const char* name, int64_t& member, int64_t least) {
    member = f.at(name).integer(least, kMostElements);
  };
  const auto optional_size = [&](const char* name, int64_t& member, int64_t least) {
    if (f.has(name)) size(name, member, least);
  };
  const auto optional_number = [&](const char* name, double& member) {
    if (f.has(name)) member = f.at(name).number();
  };
  size("layers", m.layers, 1);
  size("hidden_size", m.hidden_size, 1);
  size("heads", m.heads, 1);
  optional_size("kv_heads", m.kv_heads, 0);
  optional_size("head_width", m.head_width, 0);
  size("ffn_hidden_size", m.ffn_hidden_size, 0);
  size("vocab_size", m.vocab_size, 1);
  size("max_length", m.max_length, 1);
  if (f.has("tied_head")) m.tied_head = f.at("tied_head").boolean() ? TiedHead::yes : TiedHead::no;
  m.dropout = f.at("dropout").number();
  m.embedding_dropout = f.at("embedding_dropout").number();
  m.attention_dropout = f.at("attention_dropout").number();
  m.init_std = f.at("init_std").number();
  m.norm_epsilon = f.at("norm_epsilon").number();
  optional_number("rope_theta", m.rope_theta);
  optional_number("rope_factor", m.rope_factor);
  optional_number("rope_low_frequency", m.rope_low_frequency);
  optional_number("rope_high_frequency", m.rope_high_frequency);
  optional_size("rope_original_length", m.rope_original_length, 1);
  validate(m);
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

void read_lora(const StoredField& f, RunState& s) {
  s.lora.rank = f.at("rank").integer(1, kMostRank);
  s.lora.alpha = f.at("alpha").number();
  s.lora.dropout = f.at("dropout").number();
  s.lora.targets = f.at("targets").text();
  s.base = f.at("base").text();
}

RunState state_from(const StoredField& f) {
  RunState s;
  s.step = f.at("step").integer(0, kMostSteps);
  s.consumed_samples = f.at("consumed_samples").integer(0, kMostSamples);
  s.skipped_steps = f.at("skipped_steps").integer(0, s.step);
  s.nan_steps = f.at("nan_steps").integer(0, s.step);
  if (f.has("grad_norm")) s.grad_norm = f.at("grad_norm").number();
  s.model = model_of(f.at("model"));
  for (const auto& [name, value] : f.at("identity").object().items())
    s.identity[name] = StoredField(value, "identity." + name).text();
  if (f.has("loss_scale")) {
    const StoredField scale = f.at("loss_scale");
    s.loss_scale = scale.at("scale").number();
    if (!(s.loss_scale > 0)) scale.at("scale").refuse("more than 0");
    s.clean_steps = scale.at("clean_steps").integer(0, kMostSteps);
  }
  if (f.has("lora")) read_lora(f.at("lora"), s);
  if (f.has("amax_history"))
    f.at("amax_history").each([&](const StoredField& amax) {
      s.amax_history.push_back(static_cast<float>(amax.number()));
    });
  if (f.has("planned_samples"))
    f.at("planned_samples").each([&](const StoredField& planned) {
      s.planned_samples.push_back(planned.integer(0, kMostSamples));
    });
  if (f.has("stored_as")) s.stored_as = stored_types_from(f.at("stored_as").raw());
  return s;
}

}  // namespace

nlohmann::json to_json(const RunState& s) {
  nlohmann::json json = {
      {"step", s.step},           {"consumed_samples", s.consumed_samples}, {"skipped_steps", s.skipped_steps},
      {"nan_steps", s.nan_steps}, {"model", model_json(s.model)},           {"identity", s.identity}};
  if (!s.planned_samples.empty()) json["planned_samples"] = s.planned_samples;
  if (s.grad_norm > 0) json["grad_norm"] = s.grad_norm;
  if (s.loss_scale > 0) json["loss_scale"] = {{"scale", s.loss_scale}, {"clean_steps", s.clean_steps}};
  if (!s.amax_history.empty()) json["amax_history"] = s.amax_history;
  if (s.lora.rank > 0) json["lora"] = lora_json(s);
  if (s.stored_as != StoredTypes{}) json["stored_as"] = to_json(s.stored_as);
  return json;
}

RunState run_state(const nlohmann::json& scalars, const std::filesystem::path& folder) try {
  return state_from(StoredField(scalars, ""));
} catch (const Error& error) {
  damaged("{} is not a checkpoint of a training run: {}", folder.string(), error.what());
}

RunState run_state(const Manifest& manifest, const std::filesystem::path& folder) {
  RunState state = run_state(manifest.scalars, folder);
  if (state.step != manifest.step)
    damaged("{} is a checkpoint of step {}, but its run was at step {}", folder.string(), manifest.step, state.step);
  return state;
}

void check_same_function(const ModelConfig& found, const ModelConfig& wanted, const std::filesystem::path& folder) {
  const auto same = [&](const char* name, const auto& there, const auto& here) {
    expect_same(folder, name, there, here);
  };
  const auto kind = [](const ModelConfig& m) { return std::string(name_of(m.kind)); };
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

std::vector<Difference> differences(const std::map<std::string, std::string>& saved,
                                    const std::map<std::string, std::string>& now) {
  std::vector<Difference> list;
  for (const auto& [name, value] : now) {
    const auto before = saved.find(name);
    if (before != saved.end() && before->second != value) list.push_back({name, before->second, value});
  }
  return list;
}

}  // namespace partita::internal
