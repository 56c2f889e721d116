#include "partita/engine/step_plan.h"

#include <fmt/format.h>

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
  int slots = 0, chunks = 1;
  for (const Action& a : actions) {
    if (a.slot < 0)
      fail("an action of micro-batch {} has activation slot {}: expected 0 or more", a.micro_batch, a.slot);
    if (a.micro_batch < 0 || a.micro_batch >= micro_batches)
      fail("a step of {} micro-batches has an action of micro-batch {}", micro_batches, a.micro_batch);
    PARTITA_CHECK(a.chunk >= 0, "chunk {}", a.chunk);
    slots = std::max(slots, a.slot + 1);
    chunks = std::max(chunks, a.chunk + 1);
  }
  const auto part = [&](const Action& a) { return static_cast<size_t>(a.chunk * micro_batches + a.micro_batch); };
  const auto in_chunk = [&](const Action& a) {
    return chunks > 1 ? fmt::format(" in chunk {}", a.chunk) : std::string();
  };
  std::vector<int> held(static_cast<size_t>(slots), -1);       // [slot]: the micro-batch in it
  std::vector<bool> waits(static_cast<size_t>(slots), false);  // [slot]: for its weight gradients
  std::vector<int> forwards(static_cast<size_t>(chunks * micro_batches), 0), backwards = forwards;
  std::vector<int> done(static_cast<size_t>(chunks), 0);
  for (const Action& a : actions) {
    if (a.transfer != Transfer::none) continue;
    int& holder = held[static_cast<size_t>(a.slot)];
    if (a.pass == Pass::forward) {
      if (holder >= 0)
        fail("the forward of micro-batch {}{} overwrites activation slot {}, which micro-batch {} still needs",
             a.micro_batch, in_chunk(a), a.slot, holder);
      holder = a.micro_batch;
      ++forwards[part(a)];
    } else {
      if (holder != a.micro_batch)
        fail("the backward of micro-batch {}{} finds no forward of it in activation slot {}", a.micro_batch,
             in_chunk(a), a.slot);
      const auto slot = static_cast<size_t>(a.slot);
      if (waits[slot] != (a.gradients == Gradients::weights))
        fail("the {} gradients of micro-batch {}{} are computed {}", waits[slot] ? "input" : "weight", a.micro_batch,
             in_chunk(a), waits[slot] ? "twice" : "before its input gradients");
      waits[slot] = a.gradients == Gradients::inputs;
      if (!waits[slot]) {
        holder = -1;
        ++backwards[part(a)];
        ++done[static_cast<size_t>(a.chunk)];
      }
    }
    if (a.last != (a.pass == Pass::backward && a.gradients != Gradients::inputs &&
                   done[static_cast<size_t>(a.chunk)] == micro_batches))
      fail("the action of micro-batch {}{} is {}marked as the last backward", a.micro_batch, in_chunk(a),
           a.last ? "" : "not ");
  }
  for (size_t i = 0; i < forwards.size(); ++i)
    if (forwards[i] != 1 || backwards[i] != 1)
      fail("micro-batch {}{} has {} forward and {} backward actions: expected one of each",
           static_cast<int>(i) % micro_batches, in_chunk({.chunk = static_cast<int>(i) / std::max(micro_batches, 1)}),
           forwards[i], backwards[i]);
  return slots;
}

bool splits_backward(std::span<const Action> actions) {
  return std::ranges::any_of(actions, [](const Action& a) { return a.gradients != Gradients::all; });
}

std::vector<BlockUse> block_uses(std::span<const Action> actions, const StepBlocks& blocks) {
  std::vector<BlockUse> uses;
  for (const Action& action : actions) {
    if (action.transfer != Transfer::none) continue;
    if (action.pass == Pass::forward)
      for (int b = blocks.begin(action.chunk); b < blocks.end(action.chunk); ++b)
        uses.push_back({.block = b, .pass = Pass::forward});
    else
      for (int b = blocks.end(action.chunk) - 1; b >= blocks.lowest_backward(action.chunk); --b)
        uses.push_back(
            {.block = b,
             .pass = Pass::backward,
             .reads_weights = action.gradients != Gradients::weights && blocks.backward_reads[static_cast<size_t>(b)]});
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
