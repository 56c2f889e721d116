// A step as a list of actions: the forward and backward passes of its micro-batches, in order. Pure. Weight prefetching
// (shard/use_plan.h), buffer lifetimes (engine/arena.h) and the number of collectives per step are derived from this
// list.
//
//   const StepActions step = one_stage(2);                               // F0 B0 F1 B1
//   const std::vector<BlockUse> uses = block_uses(step.actions, blocks);  // block 0, 1, ... forward, then backward
#pragma once
#include <span>
#include <string>
#include <vector>

#include "partita/shard/use_plan.h"

namespace partita::internal {

struct Action {
  Pass pass = Pass::forward;
  int micro_batch = 0;
  int slot = 0;       // holds the micro-batch's activations from its forward to its backward
  bool last = false;  // last backward of the step: gradients are complete

  friend bool operator==(const Action&, const Action&) = default;
};

// The actions of a step. Millions of identical micro-batches are stored as one repeated head.
struct StepActions {
  std::vector<Action> actions;
  int head = 0;   // the first `head` actions belong to one micro-batch ...
  int times = 1;  // ... and repeat `times` times, each time for the next micro-batch

  // Calls visit(action, previous action or null), in order.
  template <class Visit>
  void each(Visit visit) const {
    const Action* before = nullptr;
    Action last;
    const auto take = [&](Action action, int later) {
      action.micro_batch += later;
      visit(action, before);
      last = action;
      before = &last;
    };
    for (int t = 0; t < times; ++t)
      for (int i = 0; i < head; ++i) take(actions[static_cast<size_t>(i)], t);
    for (size_t i = static_cast<size_t>(head); i < actions.size(); ++i) take(actions[i], head > 0 ? times - 1 : 0);
  }
};

// Micro-batches one after another, in a single slot.
[[nodiscard]] StepActions one_stage(int micro_batches);

// Number of slots that the actions use. Errors, each naming the action: a micro-batch without exactly one forward
// followed by one backward; a slot overwritten before its backward; a last action that is not the last backward.
[[nodiscard]] int activation_slots(std::span<const Action>, int micro_batches);

struct StepBlocks {
  int count = 0;
  int first_trainable = 0;           // blocks below it have no backward
  std::vector<bool> backward_reads;  // [block]: whether its backward reads weights
};

// One use per block and action, in order.
[[nodiscard]] std::vector<BlockUse> block_uses(std::span<const Action>, const StepBlocks&);

// Positions of block uses in the list returned by block_uses.
class Moments {
 public:
  Moments(std::span<const Action> actions, const StepBlocks&);

  // First forward of the block in the slot; -1: none.
  [[nodiscard]] int first_forward(int slot, int block) const;
  // Last backward of the block in the slot, or its last forward if it has no backward.
  [[nodiscard]] int last_use(int slot, int block) const;
  // First backward of the block in any slot.
  [[nodiscard]] int first_backward(int block) const;
  // The weight update, after all uses.
  [[nodiscard]] int update() const { return update_; }

 private:
  std::vector<std::vector<int>> first_forward_, last_use_;  // [slot][block]
  std::vector<int> first_backward_;                         // [block]
  int update_ = 0;
};

}  // namespace partita::internal
