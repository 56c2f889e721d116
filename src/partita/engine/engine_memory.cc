#include "partita/engine/engine_memory.h"

#include <algorithm>
#include <array>
#include <vector>

#include "partita/engine/activations.h"
#include "partita/engine/arena.h"
#include "partita/engine/engine_plan.h"
#include "partita/optim/optimizer.h"

namespace partita {
namespace {

class Prediction {
 public:
  Prediction(const EnginePlan& plan, const Sharding& sharding, const EngineOptions& options)
      : plan_(plan), units_(plan.units.units), sharding_(sharding), options_(options) {}

  [[nodiscard]] EngineMemory memory() {
    add_weights();
    if (options_.training) {
      add_gradients();
      add_states();
    }
    add_activations();
    return m_;
  }

 private:
  [[nodiscard]] static int64_t slice_bytes(const Unit& unit, DType dtype) {
    return unit.layout.slice_count() * size_of(dtype);
  }
  // The unit's master weights are on the device, next to the weights.
  [[nodiscard]] bool has_master(const Unit& unit) const {
    return options_.training && options_.states != options_.compute && !plan_.states_on_host && unit.trainable;
  }

  void add_weights() {
    for (const int64_t count : plan_slots(plan_.units, sharding_.few_weights, SlotsFor::weights).slot_count)
      m_.weights += count * size_of(options_.compute);
    // Where slots are shared a unit's slice lies outside, unless gathers round from its master weights.
    for (const Unit& unit : units_)
      if (sharding_.few_weights && unit.pool != Pool::own && !has_master(unit))
        m_.weights += slice_bytes(unit, options_.compute);
  }

  void add_gradients() {
    const bool adds_up = options_.micro_batches > 1, leaves = plan_.states_on_host;
    const bool shared = sharding_.few_gradients || (leaves && !adds_up);
    const bool own_slice = is_own_slice(sharding_.ranks, sharding_.few_gradients);
    const bool adds = sharding_.few_gradients && adds_up;
    const bool passes = leaves && shared && !adds && !own_slice;  // slices are put together in memory of the slot
    const SlotPlan slots = plan_slots(plan_.units, shared, SlotsFor::gradients);
    std::vector<int64_t> arriving(slots.slot_count.size(), 0);
    std::vector<bool> counted(slots.slot_count.size(), false);
    for (size_t u = 0; u < units_.size(); ++u) {
      const Unit& unit = units_[u];
      if (!unit.trainable) continue;
      const auto slot = static_cast<size_t>(slots.slot_of_unit[u]);
      if (!counted[slot]) m_.gradients += slots.slot_count[slot] * size_of(unit.gradient);
      counted[slot] = true;
      const int64_t slice = slice_bytes(unit, unit.gradient_sum);
      if (adds || passes) arriving[slot] = std::max(arriving[slot], slice);
      if (!own_slice && !passes) m_.gradients += slice;
      if (leaves) m_.host += own_slice ? slice_bytes(unit, unit.gradient) : slice;
    }
    for (const int64_t bytes : arriving) m_.gradients += bytes;
  }

  void add_states() {
    const auto states = static_cast<int64_t>(make_optimizer(options_.optimizer)->state_names().size());
    std::array<int64_t, 2> staging = {0, 0};  // on the host, of new weights on their way to the device
    size_t turn = 0;
    for (const Unit& unit : units_) {
      if (!unit.trainable) continue;
      const int64_t slice = slice_bytes(unit, options_.states);
      if (!plan_.states_on_host) {
        if (has_master(unit)) m_.master += slice;
        m_.optimizer += states * slice;
        continue;
      }
      m_.host += (1 + states) * slice;
      if (options_.states == options_.compute) continue;
      int64_t& largest = staging[turn++ % 2];
      largest = std::max(largest, slice_bytes(unit, options_.compute));
    }
    m_.host += staging[0] + staging[1];
  }

  void add_activations() {
    for (const int64_t bytes : plan_.arena_bytes) m_.activations += bytes;
    m_.shared = plan_arena(plan_.arena_bytes, plan_.gradients).shared_bytes();
    if (!plan_.activations_on_host) return;
    for (const int64_t bytes : offload_slot_bytes(plan_.offloaded, plan_.kept_bytes)) m_.activations += bytes;
    for (size_t b = 0; b < plan_.offloaded.size(); ++b)
      if (plan_.offloaded[b].leaves) m_.host += plan_.kept_bytes[b];
  }

  const EnginePlan& plan_;
  const std::vector<Unit>& units_;
  Sharding sharding_;
  const EngineOptions& options_;
  EngineMemory m_;
};

}  // namespace

EngineMemory predict_memory(std::span<const std::unique_ptr<Block>> blocks, const Sharding& sharding, int replicas,
                            const EngineOptions& options) {
  const EnginePlan plan = plan_engine(blocks, sharding, replicas, options);
  EngineMemory m = Prediction(plan, sharding, options).memory();
  m.temporaries =
      Activations::temporary_bytes(blocks, options.shape, plan.keeps, options.width, options.compute).total();
  return m;
}

}  // namespace partita
