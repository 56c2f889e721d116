#include "partita/train/run_state.h"

#include "partita/base/error.h"

namespace partita {
namespace {

nlohmann::json model_json(const ModelConfig& m) {
  return {{"kind", "gpt2"},
          {"layers", m.layers},
          {"hidden_size", m.hidden_size},
          {"heads", m.heads},
          {"ffn_hidden_size", m.ffn_size()},
          {"vocab_size", m.vocab_size},
          {"max_length", m.max_length},
          {"dropout", m.dropout},
          {"embedding_dropout", m.embedding_dropout},
          {"attention_dropout", m.attention_dropout},
          {"init_std", m.init_std},
          {"norm_epsilon", m.norm_epsilon}};
}

ModelConfig model_of(const nlohmann::json& json) {
  if (json.at("kind") != "gpt2") fail("a model of kind {}: this version knows gpt2", json.at("kind").dump());
  ModelConfig m;
  json.at("layers").get_to(m.layers);
  json.at("hidden_size").get_to(m.hidden_size);
  json.at("heads").get_to(m.heads);
  json.at("ffn_hidden_size").get_to(m.ffn_hidden_size);
  json.at("vocab_size").get_to(m.vocab_size);
  json.at("max_length").get_to(m.max_length);
  json.at("dropout").get_to(m.dropout);
  json.at("embedding_dropout").get_to(m.embedding_dropout);
  json.at("attention_dropout").get_to(m.attention_dropout);
  json.at("init_std").get_to(m.init_std);
  json.at("norm_epsilon").get_to(m.norm_epsilon);
  return m;
}

}  // namespace

nlohmann::json to_json(const RunState& s) {
  return {{"step", s.step},           {"consumed_samples", s.consumed_samples}, {"skipped_steps", s.skipped_steps},
          {"nan_steps", s.nan_steps}, {"model", model_json(s.model)},           {"identity", s.identity}};
}

RunState run_state(const nlohmann::json& scalars, const std::filesystem::path& folder) try {
  RunState s;
  scalars.at("step").get_to(s.step);
  scalars.at("consumed_samples").get_to(s.consumed_samples);
  scalars.at("skipped_steps").get_to(s.skipped_steps);
  scalars.at("nan_steps").get_to(s.nan_steps);
  s.model = model_of(scalars.at("model"));
  scalars.at("identity").get_to(s.identity);
  return s;
} catch (const nlohmann::json::exception& error) {
  fail("{} is no checkpoint of a training run: {}", folder.string(), error.what());
}

void check_same_model(const ModelConfig& saved, const ModelConfig& wanted, const std::filesystem::path& folder) {
  const auto same = [&](const char* name, auto found, auto expected) {
    if (found != expected)
      fail("{} is of another model: model.{} is {} there and {} here; use its value, or another run.directory",
           folder.string(), name, found, expected);
  };
  same("layers", saved.layers, wanted.layers);
  same("hidden_size", saved.hidden_size, wanted.hidden_size);
  same("heads", saved.heads, wanted.heads);
  same("ffn_hidden_size", saved.ffn_size(), wanted.ffn_size());
  same("vocab_size", saved.vocab_size, wanted.vocab_size);
  same("max_length", saved.max_length, wanted.max_length);
  same("norm_epsilon", saved.norm_epsilon, wanted.norm_epsilon);
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
