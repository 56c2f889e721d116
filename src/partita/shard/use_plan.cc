#include "partita/shard/use_plan.h"

#include <algorithm>
#include <numeric>

namespace partita::internal {

UsePlan plan_uses(const UnitPlan& plan, const Sharding& sharding, std::vector<BlockUse> uses, size_t head, int times) {
  const SlotPlan slots = weight_slots(plan, sharding);
  const auto slot = [&](int unit) { return slots.slot_of_unit[static_cast<size_t>(unit)]; };
  UsePlan result{.uses = std::move(uses), .turns = {}, .head = head, .times = times};
  result.turns.resize(result.uses.size());
  for (size_t i = 0; i < result.uses.size(); ++i)
    if (result.uses[i].reads_weights)
      result.turns[i].units = plan.units_of_block[static_cast<size_t>(result.uses[i].block)];

  // [slot]: the unit that uses it next, scanning backward from the end.
  std::vector<int> next_unit(slots.slot_count.size(), -1);
  for (size_t i = result.turns.size(); i-- > 0;) {
    UsePlan::Turn& turn = result.turns[i];
    for (const int unit : turn.units) {
      const int next = next_unit[static_cast<size_t>(slot(unit))];
      if (next == unit) continue;
      turn.released.push_back(unit);
      if (next >= 0) turn.evicted.push_back(unit);
    }
    for (const int unit : turn.units) next_unit[static_cast<size_t>(slot(unit))] = unit;
  }

  for (size_t i = 0; i < result.turns.size(); ++i) {
    UsePlan::Turn& turn = result.turns[i];
    bool another = turn.units.empty();
    for (size_t later = i + 1; later < result.turns.size() && !another; ++later)
      for (const int unit : result.turns[later].units) {
        if (std::ranges::find(turn.units, unit) != turn.units.end()) continue;
        another = true;
        if (std::ranges::none_of(turn.units, [&](int used) { return slot(used) == slot(unit); }))
          turn.prefetch.push_back(unit);
      }
  }
  return result;
}

std::vector<int64_t> gathers_per_unit(const UnitPlan& plan, const Sharding& sharding, const UsePlan& uses) {
  const SlotPlan slots = weight_slots(plan, sharding);
  std::vector<int> held(slots.slot_count.size(), -1);
  std::vector<int64_t> count(plan.units.size());
  const auto want = [&](int unit) {
    const auto u = static_cast<size_t>(unit);
    int& slot = held[static_cast<size_t>(slots.slot_of_unit[u])];
    if (slot != unit && is_gathered(plan.units[u], sharding)) ++count[u];
    slot = unit;
  };
  const auto trainable = [&](int unit) { return plan.units[static_cast<size_t>(unit)].trainable; };
  // Two steps: the second starts from the slots that the first leaves, minus the units rewritten by the optimizer.
  for (int step = 0; step < 2; ++step) {
    std::ranges::fill(count, 0);
    for (int& unit : held)
      if (unit >= 0 && trainable(unit)) unit = -1;
    for (int u = 0; u < static_cast<int>(plan.units.size()); ++u)
      if (trainable(u) && !slots.shared(u) && plan.units[static_cast<size_t>(u)].weights == StatesPlace::device)
        want(u);  // published after the previous step
    for (int t = 1; t < uses.times; ++t)
      for (size_t i = 0; i < uses.head; ++i)
        for (const int unit : uses.turns[i].units) want(unit);
    for (const UsePlan::Turn& turn : uses.turns)
      for (const int unit : turn.units) want(unit);
  }
  return count;
}

int64_t count_gathers(const UnitPlan& plan, const Sharding& sharding, const UsePlan& uses) {
  const std::vector<int64_t> count = gathers_per_unit(plan, sharding, uses);
  return std::accumulate(count.begin(), count.end(), int64_t{0});
}

}  // namespace partita::internal
