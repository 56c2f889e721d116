#include "partita/train/engine_state.h"

#include <map>

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

}  // namespace partita
