#include "partita/shard/collective_plan.h"

namespace partita {

bool is_gathered(const Unit& unit, int ranks, bool few_weights) {
  return ranks > 1 || (few_weights && unit.pool != Pool::own);
}

bool is_own_slice(int ranks, bool few_gradients) { return !few_gradients && ranks == 1; }

int64_t gathers_per_step(const UnitPlan& plan, const Sharding& sharding, const std::vector<bool>& backward_reads,
                         int micro_batches) {
  const SlotPlan slots = plan_slots(plan, sharding.few_weights, SlotsFor::weights);
  std::vector<int> held(slots.slot_count.size(), -1);
  int64_t count = 0;
  const auto want = [&](int unit) {
    int& slot = held[static_cast<size_t>(slots.slot_of_unit[static_cast<size_t>(unit)])];
    if (slot != unit && is_gathered(plan.units[static_cast<size_t>(unit)], sharding.ranks, sharding.few_weights))
      ++count;
    slot = unit;
  };
  for (size_t u = 0; u < plan.units.size(); ++u) {
    if (slots.shared(static_cast<int>(u))) continue;
    if (plan.units[u].trainable)
      want(static_cast<int>(u));  // published after the step before
    else
      held[static_cast<size_t>(slots.slot_of_unit[u])] = static_cast<int>(u);  // gathered once in a run
  }
  const int blocks = static_cast<int>(plan.blocks.size());
  for (int micro = 0; micro < micro_batches; ++micro) {
    for (int b = 0; b < blocks; ++b)
      for (int unit : plan.units_of_block[static_cast<size_t>(b)]) want(unit);
    for (int b = blocks - 1; b >= 0; --b)
      if (backward_reads[static_cast<size_t>(b)])
        for (int unit : plan.units_of_block[static_cast<size_t>(b)]) want(unit);
  }
  return count;
}

int64_t reductions_per_step(const UnitPlan& plan, const Sharding& sharding, int micro_batches) {
  int64_t count = 0;
  for (const Unit& unit : plan.units)
    if (unit.trainable && !is_own_slice(sharding.ranks, sharding.few_gradients))
      count += sharding.few_gradients ? micro_batches : 1;
  return count;
}

}  // namespace partita
