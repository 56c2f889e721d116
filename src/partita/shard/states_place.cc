#include "partita/shard/states_place.h"

#include <algorithm>

#include "partita/shard/units.h"

namespace partita::internal {

void place_states(UnitPlan& plan, double host, bool one_reduction) {
  double elements = 0, left = 0;
  for (const Unit& unit : plan.units)
    if (unit.trainable) elements += static_cast<double>(unit.layout.slice_count());
  left = host * elements;
  const auto place = [&](Unit& unit) {
    const auto count = static_cast<double>(unit.layout.slice_count());
    if (!unit.trainable || host <= 0 || (host < 1 && left < count / 2)) return;
    left -= count;
    unit.states = StatesPlace::host;
    // A table of two stages waits for the gradient of the other one.
    unit.shares_gradient_buffer = one_reduction && unit.stage_copy == ParameterSpec::Copy::none;
  };
  const auto vectors = [](const Unit& unit) { return unit.pool == BufferPool::persistent; };
  for (auto unit = plan.units.rbegin(); unit != plan.units.rend(); ++unit)
    if (host >= 1 || !vectors(*unit)) place(*unit);
}

}  // namespace partita::internal
