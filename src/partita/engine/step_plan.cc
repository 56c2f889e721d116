#include "partita/engine/step_plan.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::internal {

StepActions one_stage(int micro_batches) {
  StepActions step;
  if (micro_batches > 1) {
    step.head = 2;
    step.times = micro_batches - 1;
    step.actions = {{.pass = Pass::forward}, {.pass = Pass::backward}};
  }
  const int last = micro_batches > 1 ? 1 : 0;
  step.actions.push_back({.pass = Pass::forward, .micro_batch = last});
  step.actions.push_back({.pass = Pass::backward, .micro_batch = last, .last = true});
  return step;
}

int activation_slots(std::span<const Action> actions, int micro_batches) {
  int slots = 0;
  for (const Action& a : actions) {
    if (a.slot < 0)
      fail("an action of micro-batch {} has activation slot {}: expected 0 or more", a.micro_batch, a.slot);
    slots = std::max(slots, a.slot + 1);
  }
  std::vector<int> held(static_cast<size_t>(slots), -1);  // [slot]: the micro-batch in it
  std::vector<int> forwards(static_cast<size_t>(micro_batches), 0), backwards = forwards;
  int done = 0;
  for (const Action& a : actions) {
    if (a.micro_batch < 0 || a.micro_batch >= micro_batches)
      fail("a step of {} micro-batches has an action of micro-batch {}", micro_batches, a.micro_batch);
    int& holder = held[static_cast<size_t>(a.slot)];
    const auto m = static_cast<size_t>(a.micro_batch);
    if (a.pass == Pass::forward) {
      if (holder >= 0)
        fail("the forward of micro-batch {} overwrites activation slot {}, which micro-batch {} still needs",
             a.micro_batch, a.slot, holder);
      holder = a.micro_batch;
      ++forwards[m];
    } else {
      if (holder != a.micro_batch)
        fail("the backward of micro-batch {} finds no forward of it in activation slot {}", a.micro_batch, a.slot);
      holder = -1;
      ++backwards[m];
      ++done;
    }
    if (a.last != (a.pass == Pass::backward && done == micro_batches))
      fail("the action of micro-batch {} is {}marked as the last backward", a.micro_batch, a.last ? "" : "not ");
  }
  for (size_t m = 0; m < forwards.size(); ++m)
    if (forwards[m] != 1 || backwards[m] != 1)
      fail("micro-batch {} has {} forward and {} backward actions: expected one of each", m, forwards[m], backwards[m]);
  return slots;
}

std::vector<BlockUse> block_uses(std::span<const Action> actions, const StepBlocks& blocks) {
  std::vector<BlockUse> uses;
  for (const Action& action : actions) {
    if (action.pass == Pass::forward)
      for (int b = 0; b < blocks.count; ++b) uses.push_back({.block = b, .pass = Pass::forward});
    else
      for (int b = blocks.count - 1; b >= blocks.first_trainable; --b)
        uses.push_back(
            {.block = b, .pass = Pass::backward, .reads_weights = blocks.backward_reads[static_cast<size_t>(b)]});
  }
  return uses;
}

Moments::Moments(std::span<const Action> actions, const StepBlocks& blocks) {
  const auto count = static_cast<size_t>(blocks.count);
  first_backward_.assign(count, -1);
  for (const Action& action : actions) {
    const auto slot = static_cast<size_t>(action.slot);
    while (first_forward_.size() <= slot) {
      first_forward_.emplace_back(count, -1);
      last_use_.emplace_back(count, -1);
    }
    for (const BlockUse& use : block_uses({&action, 1}, blocks)) {
      const auto b = static_cast<size_t>(use.block);
      int& first = use.pass == Pass::forward ? first_forward_[slot][b] : first_backward_[b];
      if (first < 0) first = update_;
      last_use_[slot][b] = update_++;
    }
  }
}

int Moments::first_forward(int slot, int block) const {
  return first_forward_[static_cast<size_t>(slot)][static_cast<size_t>(block)];
}

int Moments::last_use(int slot, int block) const {
  return last_use_[static_cast<size_t>(slot)][static_cast<size_t>(block)];
}

int Moments::first_backward(int block) const { return first_backward_[static_cast<size_t>(block)]; }

}  // namespace partita::internal
