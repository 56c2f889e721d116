#include "partita/module/optimizer_contents.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "partita/base/error.h"
#include "partita/module/module_parameters.h"
#include "partita/module/optimizer_access.h"

namespace partita::internal {

namespace {

using Parameters = std::vector<OptimizerContents::Parameter>;

// Those of all stages of a pipeline, in their order.
Parameters of_all_stages(const Parameters& own, Communicator& pipeline) {
  std::string mine;
  for (const OptimizerContents::Parameter& p : own)
    mine += nlohmann::json{p.name, p.shape, static_cast<int>(p.dtype), p.states}.dump() + "\n";
  Parameters all;
  std::set<std::string> names;
  for (const std::string& of_rank : gather_strings(pipeline, mine)) {
    std::istringstream lines(of_rank);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (names.insert(json[0]).second)
        all.push_back({json[0], json[1], static_cast<DType>(json[2].get<int>()), json[3]});
    }
  }
  return all;
}

std::vector<OptimizerContents::Frozen> frozen_of(ModuleParameters& part) {
  part.collect_changes();
  std::vector<OptimizerContents::Frozen> all;
  std::map<std::string, size_t> index;
  for (const NamedParameter& p : part.parameters()) {
    index.emplace(p.name, all.size());
    all.push_back({p.tensor, {}});
  }
  for (OwnedBox& owned : part.store().owned_boxes())
    all[index.at(owned.parameter->name)].boxes.push_back(std::move(owned));
  return all;
}

OptimizerContents contents_of(const OptimizerAccess& access) {
  if (access.of_torch)
    fail(
        "ZeroOptimizer: the states of an optimizer of torch are not in checkpoints: use OptimizerOptions::kind instead "
        "of torch_optimizer, or save that optimizer on each rank");
  const at::NoGradGuard none;
  OptimizerContents contents{.parameters = {},
                             .boxes = {},
                             .frozen = {},
                             .replica = access.zero.replica->rank(),
                             .replicas = access.zero.replica->size(),
                             .steps = access.steps,
                             .updates = access.updates};
  for (const auto& part : access.parts) {
    part->collect_changes();
    const auto names = part->store().optimizer_state_names();
    for (const ParameterSpec& spec : part->store().specs())
      contents.parameters.push_back({spec.name, spec.shape, part->states(), {names.begin(), names.end()}});
    for (OwnedBox& owned : part->store().owned_boxes()) contents.boxes.push_back(std::move(owned));
  }
  for (const auto& part : access.frozen) std::ranges::move(frozen_of(*part), std::back_inserter(contents.frozen));
  if (access.zero.pipeline != nullptr) contents.parameters = of_all_stages(contents.parameters, *access.zero.pipeline);
  return contents;
}

}  // namespace

OptimizerContents optimizer_contents(ZeroOptimizer& optimizer) {
  const OptimizerAccess access = OptimizerAccess::to(optimizer);
  return access.caller.run([&] { return contents_of(access); });
}

void take_contents(ZeroOptimizer& optimizer, int64_t steps, int64_t updates) {
  const at::NoGradGuard none;
  optimizer.zero_grad();
  OptimizerAccess access = OptimizerAccess::to(optimizer);
  access.steps = steps;
  access.updates = updates;
  access.caller.run([&] {
    for (const ModuleParts* parts : {&access.parts, &access.frozen}) {
      for (const auto& part : *parts) part->publish();
      for (const auto& part : *parts) part->settle();
    }
  });
}

}  // namespace partita::internal
