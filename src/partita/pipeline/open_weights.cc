#include "partita/pipeline/open_weights.h"

#include <algorithm>
#include <deque>

#include "partita/base/error.h"
#include "partita/pipeline/schedules.h"

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
  ActionList out;
  std::deque<PipelineAction> open;  // weight gradients, in the order in which they were opened
  for (const PipelineAction& action : list) {
    if (action.kind == ActionKind::weight_gradient) {
      const auto here = std::find(open.begin(), open.end(), action);
      if (here == open.end()) continue;  // computed earlier
      open.erase(here);
    } else if (action.kind == ActionKind::input_gradient) {
      if (open.size() == static_cast<size_t>(most)) {
        out.push_back(open.front());
        open.pop_front();
      }
      open.push_back({ActionKind::weight_gradient, action.chunk, action.micro_batch});
    }
    out.push_back(action);
  }
  return out;
}

ActionLists capped_actions(const PipelineShape& shape, int most) {
  ActionLists lists = pipeline_actions(shape);
  if (most >= 0)
    for (ActionList& list : lists) list = cap_open_weights(list, most);
  return lists;
}

}  // namespace partita::internal
