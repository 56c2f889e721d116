#include "partita/engine/parameter_options.h"

#include <algorithm>

#include "partita/engine/host_states.h"
#include "partita/optim/optimizer.h"
#include "partita/shard/gradient_plan.h"
#include "partita/shard/weights_off_device.h"

namespace partita::internal {
namespace {

int64_t slice_bytes(const Unit& unit, DType dtype) { return unit.layout.slice_count() * size_of(dtype); }

int64_t weight_bytes(const UnitPlan& plan, const Sharding& sharding, const ParameterOptions& options) {
  const SlotPlan slots = weight_slots(plan, sharding);
  int64_t total = 0;
  for (size_t s = 0; s < slots.slot_count.size() && !options.weights_on_demand; ++s)
    total += slots.slot_count[s] * size_of(slots.slot_dtype[s]);
  // With shared slots a unit's slice is stored outside them, unless gathers read its master weights.
  for (const Unit& unit : plan.units)
    if (is_gathered_for_use(unit, sharding) && unit.weights == StatesPlace::device &&
        !options.has_master_on_device(unit))
      total += slice_bytes(unit, unit.weight);
  return total;
}

void add_states(const UnitPlan& plan, const ParameterOptions& options, ParameterMemory& m) {
  const auto states = static_cast<int64_t>(make_optimizer(options.optimizer)->state_names().size());
  int64_t staging = 0;  // on the host, for new weights on their way to the device: of each of two buffers
  for (const Unit& unit : plan.units) {
    if (!unit.trainable) continue;
    const int64_t slice = slice_bytes(unit, options.states);
    if (!unit.on_host()) {
      if (options.has_master_on_device(unit)) m.master += slice;
      m.optimizer += states * slice;
      continue;
    }
    const bool weight_is_master = options.states == options.compute;
    if (unit.states == StatesPlace::host)
      m.host += (states + (weight_is_master && unit.weights == StatesPlace::host ? 0 : 1)) * slice;
    if (weight_is_master || unit.weights != StatesPlace::device) continue;
    staging = std::max(staging, slice_bytes(unit, options.compute));
  }
  m.host += 2 * staging;
  const StatesFile file = plan_states_file(plan, static_cast<int>(1 + states), size_of(options.states));
  for (const int64_t bytes : file.buffer_bytes) m.host += bytes;
  m.disk += file.bytes;
}

}  // namespace

ParameterMemory predict_parameter_memory(const UnitPlan& plan, const Sharding& sharding,
                                         const ParameterOptions& options) {
  ParameterMemory m{.weights = weight_bytes(plan, sharding, options),
                    .host = weights_host_bytes(plan),
                    .disk = plan_weights_file(plan).bytes};
  if (!options.training) return m;
  const GradientPlan gradients = plan_gradients(plan, sharding, options.micro_batches);
  m.gradients = gradients.bytes();
  m.host += gradients.host_bytes();
  add_states(plan, options, m);
  return m;
}

}  // namespace partita::internal
