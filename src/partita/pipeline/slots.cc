#include "partita/pipeline/slots.h"

#include <map>
#include <set>
#include <utility>

namespace partita::internal {

ActivationSlots assign_slots(std::span<const PipelineAction> list) {
  ActivationSlots plan;
  std::set<int> free;
  std::map<std::pair<int, int>, int> held;  // (chunk, micro-batch): its slot
  for (const PipelineAction& action : list) {
    if (is_message(action.kind)) {
      plan.slot.push_back(-1);
      continue;
    }
    const std::pair key(action.chunk, action.micro_batch);
    if (action.kind == ActionKind::forward) {
      if (free.empty()) free.insert(plan.slots++);
      held[key] = free.extract(free.begin()).value();
    }
    const int slot = held.at(key);
    plan.slot.push_back(slot);
    if (frees_activations(action.kind)) {
      held.erase(key);
      free.insert(slot);
    }
  }
  return plan;
}

}  // namespace partita::internal
