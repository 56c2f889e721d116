#include "partita/engine/memory_timeline.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "partita/base/error.h"
#include "partita/engine/engine_memory.h"
#include "partita/engine/engine_plan.h"
#include "partita/shard/gradient_plan.h"

namespace partita::internal {
namespace {

int64_t device_bytes(const EngineMemory& m) {
  return m.weights + m.gradients - m.shared + m.master + m.optimizer + m.activations + m.temporaries;
}

// Bytes of one owner over the moments, as differences between neighbors.
class Bytes {
 public:
  explicit Bytes(size_t moments) : change_(moments + 1) {}
  // In use from the first to the last moment.
  void add(int64_t bytes, size_t first, size_t last) {
    change_[first] += bytes;
    change_[last + 1] -= bytes;
  }
  [[nodiscard]] std::vector<int64_t> sums() const {
    std::vector<int64_t> all(change_.size());
    std::partial_sum(change_.begin(), change_.end(), all.begin());
    return all;
  }

 private:
  std::vector<int64_t> change_;
};

class Timeline {
 public:
  Timeline(const EnginePlan& plan, const EngineMemory& allocated, const EngineOptions& options)
      : plan_(plan), allocated_(allocated), options_(options) {
    moments_.push_back({.kind = MemoryMoment::Kind::before});
    for (const Action& action : plan.step.actions)
      for (const BlockUse& use : block_uses({&action, 1}, plan.blocks)) {
        moments_.push_back({.block = use.block, .pass = use.pass, .micro_batch = action.micro_batch});
        actions_.push_back(action);
      }
    // Actions after the head count on from its last repetition (StepActions::each).
    for (size_t i = 0; i < actions_.size(); ++i)
      if (plan.step.head > 0 && i >= uses_of_head()) moments_[i + 1].micro_batch += plan.step.times - 1;
    moments_.push_back({.kind = MemoryMoment::Kind::update, .micro_batch = options.micro_batches - 1});
  }

  std::vector<MemoryMoment> operator()() {
    const std::vector<int64_t> weights = weight_bytes(), gradients = gradient_bytes(), saved = saved_bytes();
    for (size_t i = 0; i < moments_.size(); ++i) {
      EngineMemory& m = moments_[i].in_use;
      m.weights = weights[i];
      m.gradients = gradients[i];
      m.master = allocated_.master;
      m.optimizer = allocated_.optimizer;
      m.host = allocated_.host;
      m.disk = allocated_.disk;
      m.activations = saved[i];
      m.temporaries = moments_[i].kind == MemoryMoment::Kind::pass ? allocated_.temporaries : 0;
    }
    return std::move(moments_);
  }

 private:
  [[nodiscard]] size_t uses_of_head() const {
    return block_uses(std::span(plan_.step.actions).first(static_cast<size_t>(plan_.step.head)), plan_.blocks).size();
  }
  [[nodiscard]] size_t update() const { return moments_.size() - 1; }

  // Slots that layers share hold weights from their gather on, which is under the use before.
  [[nodiscard]] std::vector<int64_t> weight_bytes() const {
    const SlotPlan slots = weight_slots(plan_.units, plan_.sharding);
    const auto slot_bytes = [&](size_t slot) { return slots.slot_count[slot] * size_of(slots.slot_dtype[slot]); };
    std::vector<bool> shared(slots.slot_count.size());
    int64_t always = allocated_.weights;
    for (size_t u = 0; u < plan_.units.units.size(); ++u)
      if (const auto slot = static_cast<size_t>(slots.slot_of_unit[u]); slots.shared(static_cast<int>(u)))
        shared[slot] = true;
    for (size_t slot = 0; slot < shared.size(); ++slot)
      if (shared[slot]) always -= slot_bytes(slot);
    std::vector<int64_t> bytes(moments_.size() + 1, always);
    for (size_t i = 0; i < plan_.training.turns.size(); ++i) {
      const UsePlan::Turn& turn = plan_.training.turns[i];
      std::vector<bool> held(shared.size());
      for (const std::vector<int>* units : {&turn.units, &turn.prefetch})
        for (const int unit : *units) held[static_cast<size_t>(slots.slot_of_unit[static_cast<size_t>(unit)])] = true;
      for (size_t slot = 0; slot < shared.size(); ++slot)
        if (shared[slot] && held[slot]) bytes[i + 1] += slot_bytes(slot);
    }
    return bytes;
  }

  // Full gradients of a unit from its first writer on, its slices from the first reduction on, both to the update;
  // slots that units share, while blocks write them.
  [[nodiscard]] std::vector<int64_t> gradient_bytes() const {
    const UnitPlan& units = plan_.units;
    const GradientPlan gradients = plan_gradients(units, plan_.sharding, options_.micro_batches);
    Bytes bytes(moments_.size());
    std::vector<bool> shared(gradients.slots.slot_count.size());
    const auto slot_bytes = [&](size_t slot) {
      return gradients.slots.slot_count[slot] * size_of(gradients.slots.slot_dtype[slot]) +
             gradients.receive_count[slot] * size_of(gradients.receive_dtype[slot]);
    };
    for (size_t u = 0; u < units.units.size(); ++u) {
      const int slot = gradients.slots.slot_of_unit[u];
      if (slot < 0) continue;
      if (gradients.slots.shared(static_cast<int>(u)))
        shared[static_cast<size_t>(slot)] = true;
      else
        bytes.add(slot_bytes(static_cast<size_t>(slot)), first_backward(units.last_block[u]), update());
      if (gradients.slice[u] == SliceMemory::own)
        bytes.add(gradients.slice_count[u] * size_of(gradients.slice_dtype[u]), first_backward(units.first_block[u]),
                  update());
    }
    std::vector<int64_t> all = bytes.sums();
    for (size_t i = 1; i < update(); ++i) {
      if (moments_[i].pass == Pass::forward) continue;
      std::vector<bool> held(shared.size());
      for (const int unit : units.units_of_block[static_cast<size_t>(moments_[i].block)])
        if (const int slot = gradients.slots.slot_of_unit[static_cast<size_t>(unit)]; slot >= 0)
          held[static_cast<size_t>(slot)] = true;
      for (size_t slot = 0; slot < shared.size(); ++slot)
        if (shared[slot] && held[slot]) all[i] += slot_bytes(slot);
    }
    return all;
  }

  [[nodiscard]] size_t first_backward(int block) const {
    const auto found = std::ranges::find_if(
        moments_, [block](const MemoryMoment& m) { return m.block == block && m.pass == Pass::backward; });
    return found == moments_.end() ? update() : static_cast<size_t>(found - moments_.begin());
  }

  // What a block keeps from a forward pass to the last use of that micro-batch; operands of weight gradients that wait;
  // the buffers that offloaded layers share, from the first of these to the last.
  [[nodiscard]] std::vector<int64_t> saved_bytes() const {
    Bytes bytes(moments_.size());
    std::map<std::pair<int, int>, std::pair<size_t, size_t>> kept;            // {slot, block}: first and last moment
    std::map<std::pair<int, int>, size_t> open;                               // {set, block}: since
    std::array<std::pair<size_t, size_t>, 2> offloaded = {{{0, 0}, {0, 0}}};  // [buffer]; {0, 0}: not used
    const auto count = static_cast<size_t>(plan_.blocks.count);
    const auto end = [&](const auto& entry) {
      const auto& [slot, block] = entry.first;
      bytes.add(plan_.kept[static_cast<size_t>(slot) * count + static_cast<size_t>(block)].bytes, entry.second.first,
                entry.second.second);
    };
    for (size_t i = 1; i < update(); ++i) {
      const Action& action = actions_[i - 1];
      const int block = moments_[i].block;
      const auto b = static_cast<size_t>(block);
      const std::pair key(action.slot, block);
      if (moments_[i].pass == Pass::forward) {
        if (const auto before = kept.find(key); before != kept.end()) end(*before);
        kept[key] = {i, i};
      } else {
        kept[key].second = i;
      }
      if (const int buffer = plan_.offload.buffer[b]; buffer >= 0) {
        std::pair<size_t, size_t>& use = offloaded[static_cast<size_t>(buffer)];
        if (use.first == 0) use.first = i;
        use.second = i;
      }
      if (action.gradients == Gradients::inputs) open[{action.open, block}] = i;
      if (action.gradients == Gradients::weights)
        if (const auto set = open.find({action.open, block}); set != open.end())
          bytes.add(plan_.open_bytes[static_cast<size_t>(action.open) * count + b], set->second, i), open.erase(set);
    }
    for (const auto& entry : kept) end(entry);
    if (plan_.activations_on_host) {
      const std::array<int64_t, 2> sizes = plan_.offload.buffer_bytes(plan_.kept_bytes);
      for (size_t s = 0; s < sizes.size(); ++s)
        if (offloaded[s].first > 0) bytes.add(sizes[s], offloaded[s].first, offloaded[s].second);
    }
    return bytes.sums();
  }

  const EnginePlan& plan_;
  const EngineMemory& allocated_;
  const EngineOptions& options_;
  std::vector<MemoryMoment> moments_;
  std::vector<Action> actions_;  // [moment - 1]
};

}  // namespace

int64_t MemoryMoment::bytes() const { return device_bytes(in_use); }

int64_t MemoryTimeline::allocated_bytes() const { return device_bytes(allocated); }

size_t MemoryTimeline::peak() const {
  return static_cast<size_t>(std::ranges::max_element(moments, {}, &MemoryMoment::bytes) - moments.begin());
}

MemoryTimeline memory_timeline(std::span<const std::unique_ptr<Block>> blocks, const Sharding& sharding,
                               const EngineOptions& options) {
  PARTITA_CHECK(options.training, "a timeline of inference");
  const EnginePlan plan = plan_engine(blocks, sharding, options);
  MemoryTimeline timeline{.allocated = predict_memory(blocks, plan, options), .moments = {}};
  timeline.moments = Timeline(plan, timeline.allocated, options)();
  return timeline;
}

}  // namespace partita::internal
