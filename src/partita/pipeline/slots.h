// Which of a rank's activation buffers, its slots, each action of a pipeline uses. Pure.
//
//   const ActivationSlots plan = assign_slots(list);    // F0 F1 B0 F2 B1 B2
//   plan.slots == 2                              // 0  1  0  0  1  0
//
// A slot holds the activations of one chunk and micro-batch, from its forward to its backward or weight gradient.
#pragma once
#include <span>
#include <vector>

#include "partita/pipeline/action.h"

namespace partita::internal {

struct ActivationSlots {
  std::vector<int> slot;  // [action]; messages: -1
  int slots = 0;          // as many as are ever held at the same time, which is the least possible
};

// Each forward takes the lowest slot that is free. The list is one that check_actions or check_messages accepts.
[[nodiscard]] ActivationSlots assign_slots(std::span<const PipelineAction>);

}  // namespace partita::internal
