#include "partita/train/engine_state.h"

#include <map>

namespace partita {
namespace {

State make_state(const Engine& engine, Part part, int replica, int replicas) {
  State state;
  std::vector<std::string> prefixes = {"model"};
  for (const std::string& name : engine.optimizer_state_names()) prefixes.push_back(name);

  const auto wanted = [&](const ParameterSpec& p) { return part == Part::all || p.adapter; };
  std::map<std::string, int> first;  // of the tensors of a parameter
  for (const ParameterSpec& p : engine.parameters()) {
    if (!wanted(p)) continue;
    first[p.name] = static_cast<int>(state.tensors.size());
    for (size_t k = 0; k < (p.trainable ? prefixes.size() : 1); ++k)
      state.tensors.push_back({prefixes[k] + "/" + p.name, p.shape, engine.stored_dtype(p)});
  }
  for (const OwnedRun& run : engine.owned_runs()) {
    if (!wanted(*run.parameter)) continue;
    const int64_t begin = run.count * replica / replicas, end = run.count * (replica + 1) / replicas;
    if (begin == end) continue;
    for (size_t k = 0; k < run.values.size(); ++k) {
      const int tensor = first.at(run.parameter->name) + static_cast<int>(k);
      auto* data = static_cast<std::byte*>(run.values[k].data_ptr()) +
                   begin * size_of(state.tensors[static_cast<size_t>(tensor)].dtype);
      state.pieces.push_back({.tensor = tensor, .begin = run.begin + begin, .count = end - begin, .data = data});
    }
  }
  return state;
}

}  // namespace

State wanted_state(const Engine& engine, Part part) { return make_state(engine, part, 0, 1); }
State saved_state(const Engine& engine, Part part, int replica, int replicas) {
  return make_state(engine, part, replica, replicas);
}

}  // namespace partita
