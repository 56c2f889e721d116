#include "partita/shard/gradient_plan.h"

#include <algorithm>

namespace partita::internal {

GradientPlan plan_gradients(const UnitPlan& plan, const Sharding& sharding, int micro_batches) {
  GradientPlan result{.shared = sharding.gradients};
  if (sharding.ranks == 1 && !sharding.gradients)
    result.reduction = Reduction::in_place;
  else if (sharding.gradients && micro_batches > 1)
    result.reduction = Reduction::each_then_add;
  const auto shares = [&](const Unit& unit) {
    return sharding.gradients || unit.shares_gradient_buffer || unit.adds_on_host;
  };
  result.slots = plan_slots(plan, shares, SlotContent::gradients);
  result.receive_count.assign(result.slots.slot_count.size(), 0);
  result.receive_dtype.assign(result.slots.slot_count.size(), DType::fp32);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    SliceMemory memory = SliceMemory::none;
    if (unit.trainable) {
      const auto slot = static_cast<size_t>(result.slots.slot_of_unit[u]);
      if (result.reduction == Reduction::in_place)
        memory = SliceMemory::full;
      else if (unit.adds_on_host || (unit.on_host() && shares(unit) && result.reduction == Reduction::once))
        memory = SliceMemory::receive;
      else
        memory = SliceMemory::own;
      if (memory == SliceMemory::receive || result.reduction == Reduction::each_then_add) {
        result.receive_count[slot] = std::max(result.receive_count[slot], unit.layout.slice_count());
        result.receive_dtype[slot] = unit.gradient_sum;
      }
    }
    result.slice.push_back(memory);
    result.slice_dtype.push_back(memory == SliceMemory::full ? unit.gradient : unit.gradient_sum);
    result.slice_count.push_back(unit.layout.slice_count());
    result.on_host.push_back(unit.trainable && unit.on_host());
    result.adds_on_host.push_back(unit.trainable && unit.adds_on_host);
  }
  return result;
}

int64_t GradientPlan::full_bytes() const {
  int64_t total = 0;
  for (size_t s = 0; s < slots.slot_count.size(); ++s) total += slots.slot_count[s] * size_of(slots.slot_dtype[s]);
  return total;
}

int64_t GradientPlan::receive_bytes() const {
  int64_t total = 0;
  for (size_t s = 0; s < receive_count.size(); ++s) total += receive_count[s] * size_of(receive_dtype[s]);
  return total;
}

int64_t GradientPlan::slice_bytes() const {
  int64_t total = 0;
  for (size_t u = 0; u < slice.size(); ++u)
    if (slice[u] == SliceMemory::own) total += slice_count[u] * size_of(slice_dtype[u]);
  return total;
}

int64_t GradientPlan::host_bytes() const {
  int64_t total = 0;
  for (size_t u = 0; u < slice.size(); ++u)
    if (on_host[u]) total += slice_count[u] * size_of(slice_dtype[u]);
  return total + 2 * arrival_bytes();
}

int64_t GradientPlan::arrival_bytes() const {
  int64_t largest = 0;
  for (size_t u = 0; u < slice.size(); ++u)
    if (adds_on_host[u]) largest = std::max(largest, slice_count[u] * size_of(slice_dtype[u]));
  return largest;
}

int64_t count_reductions(const UnitPlan& plan, const GradientPlan& gradients, int micro_batches) {
  if (gradients.reduction == Reduction::in_place) return 0;
  int64_t count = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const bool each = gradients.adds_on_host[u] || gradients.reduction == Reduction::each_then_add;
    if (plan.units[u].trainable) count += each ? micro_batches : 1;
  }
  return count;
}

}  // namespace partita::internal
