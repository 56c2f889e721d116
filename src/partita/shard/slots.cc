#include "partita/shard/slots.h"

#include <algorithm>
#include <array>

namespace partita::internal {

bool SlotPlan::shared(int unit) const {
  return std::ranges::count(slot_of_unit, slot_of_unit[static_cast<size_t>(unit)]) > 1;
}

SlotPlan weight_slots(const UnitPlan& plan, const Sharding& sharding) {
  return plan_slots(
      plan, [&](const Unit& unit) { return is_gathered_for_use(unit, sharding); }, SlotContent::weights);
}

SlotPlan plan_slots(const UnitPlan& plan, const std::function<bool(const Unit&)>& shares, SlotContent content) {
  SlotPlan slots;
  const auto put = [&](int slot, const Unit& unit) {
    if (slot == static_cast<int>(slots.slot_count.size())) {
      slots.slot_count.push_back(0);
      slots.slot_dtype.push_back(content == SlotContent::weights ? unit.weight : unit.gradient);
    }
    auto& count = slots.slot_count[static_cast<size_t>(slot)];
    count = std::max(count, unit.layout.count);
    slots.slot_of_unit.push_back(slot);
  };
  std::array<int, 2> layer_slots = {-1, -1};  // layers alternate
  std::array<int, 2> outer_slots = {-1, -1};  // frozen, trainable: a block may use both at once
  size_t layer = 0;
  for (const Unit& unit : plan.units) {
    const int next = static_cast<int>(slots.slot_count.size());
    if (content == SlotContent::gradients && !unit.trainable) {
      slots.slot_of_unit.push_back(-1);
    } else if (!shares(unit) || unit.pool == BufferPool::persistent || unit.stage_copy != ParameterSpec::Copy::none) {
      put(next, unit);
    } else {
      int& slot = unit.pool == BufferPool::layers ? layer_slots[layer++ % 2] : outer_slots[unit.trainable ? 1 : 0];
      if (slot < 0) slot = next;
      put(slot, unit);
    }
  }
  return slots;
}

bool is_gathered_for_use(const Unit& unit, const Sharding& sharding) {
  return (sharding.weights || unit.weights != StatesPlace::device) && unit.pool != BufferPool::persistent;
}

bool is_gathered(const Unit& unit, const Sharding& sharding) {
  return sharding.ranks > 1 || is_gathered_for_use(unit, sharding);
}

}  // namespace partita::internal
