#include "partita/train/engine_state.h"

#include <map>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr const char* kWeights = "model";

// The first `kinds` of {weights, optimizer states ...}.
State make_state(const Engine& engine, size_t kinds, int replica, int replicas) {
  State state;
  std::vector<std::string> prefixes = {kWeights};
  for (const std::string& name : AdamWOptimizer::state_names()) prefixes.push_back(name);
  prefixes.resize(kinds);

  std::map<std::string, int> index;
  for (const ParameterSpec& p : engine.parameters()) {
    index[p.name] = static_cast<int>(state.tensors.size());
    for (const std::string& prefix : prefixes) state.tensors.push_back({prefix + "/" + p.name, p.shape, DType::fp32});
  }
  for (const OwnedRun& run : engine.owned_runs()) {
    const int64_t begin = run.count * replica / replicas, end = run.count * (replica + 1) / replicas;
    if (begin == end) continue;
    for (size_t k = 0; k < kinds; ++k)
      state.pieces.push_back({.tensor = index.at(run.parameter->name) + static_cast<int>(k),
                              .begin = run.begin + begin,
                              .count = end - begin,
                              .data = reinterpret_cast<std::byte*>(run.values[k].data_ptr<float>() + begin)});
  }
  return state;
}

size_t all_kinds() { return 1 + AdamWOptimizer::state_names().size(); }

}  // namespace

State wanted_state(const Engine& engine) { return make_state(engine, all_kinds(), 0, 1); }
State saved_state(const Engine& engine, int replica, int replicas) {
  return make_state(engine, all_kinds(), replica, replicas);
}
State wanted_weights(const Engine& engine) { return make_state(engine, 1, 0, 1); }

nlohmann::json to_json(const ModelConfig& m) {
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

ModelConfig model_from_json(const nlohmann::json& json) try {
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
} catch (const nlohmann::json::exception& error) {
  fail("the checkpoint's description of its model cannot be read: {}", error.what());
}

}  // namespace partita
