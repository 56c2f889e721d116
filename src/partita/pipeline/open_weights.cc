#include "partita/pipeline/open_weights.h"

#include <algorithm>
#include <set>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

ActionList whole_backwards(std::span<const PipelineAction> list) {
  ActionList out;
  for (PipelineAction action : list) {
    if (action.kind == ActionKind::weight_gradient) continue;
    if (action.kind == ActionKind::input_gradient) action.kind = ActionKind::backward;
    out.push_back(action);
  }
  return out;
}

}  // namespace

int most_open_weights(std::span<const PipelineAction> list) {
  int open = 0, most = 0;
  for (const PipelineAction& action : list) {
    if (action.kind == ActionKind::input_gradient) most = std::max(most, ++open);
    if (action.kind == ActionKind::weight_gradient) --open;
  }
  return most;
}

ActionList cap_open_weights(std::span<const PipelineAction> list, int most) {
  if (most < 0) fail("pipeline: at most {} open weight gradients: expected 0 or more", most);
  if (most == 0) return whole_backwards(list);
  // Weight gradients in list order. They are computed in this order wherever they move to.
  ActionList weights;
  std::copy_if(list.begin(), list.end(), std::back_inserter(weights),
               [](const PipelineAction& action) { return action.kind == ActionKind::weight_gradient; });
  ActionList out;
  size_t done = 0;    // of `weights`
  size_t passed = 0;  // of `weights`, where they were
  int open = 0;
  for (const PipelineAction& action : list) {
    if (action.kind == ActionKind::weight_gradient) {
      if (++passed <= done) continue;
      ++done;
      --open;
    } else if (action.kind == ActionKind::input_gradient && open++ == most) {
      out.push_back(weights[done++]);
      --open;
    }
    out.push_back(action);
  }
  return out;
}

}  // namespace partita::internal
