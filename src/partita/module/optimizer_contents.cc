#include "partita/module/optimizer_contents.h"

#include <ATen/core/grad_mode.h>

#include "partita/base/error.h"
#include "partita/module/module_parameters.h"
#include "partita/module/optimizer_access.h"

namespace partita::internal {

OptimizerContents optimizer_contents(ZeroOptimizer& optimizer) {
  const OptimizerAccess access = OptimizerAccess::to(optimizer);
  if (access.of_torch)
    fail(
        "ZeroOptimizer: the states of an optimizer of torch are not in checkpoints: use OptimizerOptions::kind instead "
        "of torch_optimizer, or save that optimizer on each rank");
  const at::NoGradGuard none;
  OptimizerContents contents{.parameters = {},
                             .boxes = {},
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
  return contents;
}

void take_contents(ZeroOptimizer& optimizer, int64_t steps, int64_t updates) {
  const at::NoGradGuard none;
  optimizer.zero_grad();
  OptimizerAccess access = OptimizerAccess::to(optimizer);
  access.steps = steps;
  access.updates = updates;
  for (const auto& part : access.parts) part->publish();
  for (const auto& part : access.parts) part->settle();
}

}  // namespace partita::internal
