// A step as a list of actions: the forward and backward passes of its micro-batches, in order, and with pipeline
// parallelism (engine/pipeline_stage.h) the messages between them. Pure. Weight prefetching
// (shard/use_plan.h), buffer lifetimes (engine/arena.h) and the number of collectives per step are derived from this
// list.
//
//   const StepActions step = one_stage(2);                               // F0 B0 F1 B1
//   const std::vector<BlockUse> uses = block_uses(step.actions, blocks);  // block 0, 1, ... forward, then backward
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partita/shard/use_plan.h"

namespace partita::internal {

enum class Transfer : uint8_t { none, send, receive };

// Which gradients a backward pass computes: those of weights may follow in a pass of their own.
enum class Gradients : uint8_t { all, inputs, weights };

struct Action {
  Pass pass = Pass::forward;
  int micro_batch = 0;
  int slot = 0;       // holds the micro-batch's activations from its forward to its last backward
  bool last = false;  // last backward of the chunk in the step: its gradients are complete
  int chunk = 0;      // of this rank's blocks
  // A message in place of a pass. forward: the chunk's output is sent, or its input received; backward: the gradient of
  // its input is sent, or that of its output received.
  Transfer transfer = Transfer::none;
  int peer = -1;                         // of a message: the other rank of the pipeline
  Gradients gradients = Gradients::all;  // of a backward pass
  int open = -1;  // inputs, weights: the set of operands that waits in between (engine/open_gradients.h)

  friend bool operator==(const Action&, const Action&) = default;
};

struct TimedAction {
  Action action;
  double begin = 0, end = 0;  // seconds since the step began
};

// The actions of a step. Millions of identical micro-batches are stored as one repeated head.
struct StepActions {
  std::vector<Action> actions;
  int head = 0;   // the first `head` actions belong to one micro-batch ...
  int times = 1;  // ... and repeat `times` times, each time for the next micro-batch

  // Calls visit(action), in order.
  template <class Visit>
  void each(Visit visit) const {
    const auto take = [&](Action action, int later) {
      action.micro_batch += later;
      visit(action);
    };
    for (int t = 0; t < times; ++t)
      for (int i = 0; i < head; ++i) take(actions[static_cast<size_t>(i)], t);
    for (size_t i = static_cast<size_t>(head); i < actions.size(); ++i) take(actions[i], head > 0 ? times - 1 : 0);
  }
};

// Micro-batches one after another, in a single slot.
[[nodiscard]] StepActions one_stage(int micro_batches);

// Number of slots that the actions use. Errors, each naming the action: a chunk and micro-batch without exactly one
// forward followed by one backward, or by its input and then its weight gradients; a slot overwritten before that; a
// last action that is not the chunk's last backward.
[[nodiscard]] int activation_slots(std::span<const Action>, int micro_batches);

struct StepBlocks {
  int count = 0;
  int first_trainable = 0;           // blocks below it have no backward ...
  std::vector<bool> backward_reads;  // [block]: whether its backward reads weights
  std::vector<int> chunks;           // first block of each chunk, then `count`; empty: one chunk
  std::vector<bool> trains_below;    // [chunk]: ... unless an earlier stage has trained parameters; empty: no

  [[nodiscard]] int begin(int chunk) const { return chunks.empty() ? 0 : chunks[static_cast<size_t>(chunk)]; }
  [[nodiscard]] int end(int chunk) const { return chunks.empty() ? count : chunks[static_cast<size_t>(chunk) + 1]; }
  // The lowest block of the chunk that has a backward; end(chunk): none.
  [[nodiscard]] int lowest_backward(int chunk) const {
    if (!trains_below.empty() && trains_below[static_cast<size_t>(chunk)]) return begin(chunk);
    return std::clamp(first_trainable, begin(chunk), end(chunk));
  }
};

// Whether some weight gradients are computed in passes of their own.
[[nodiscard]] bool splits_backward(std::span<const Action>);

// One use per block and action, in order. A pass of weight gradients reads no weights.
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
