#include "partita/module/weights_on_demand.h"

#include <algorithm>
#include <utility>

#include "partita/device/scalar_type.h"
#include "partita/shard/flat_buffer.h"

namespace partita::internal {
namespace {

// The unit in use, the one before, whose last operations may follow, and the next one.
constexpr int kHeldUnits = 3;

}  // namespace

WeightsOnDemand::WeightsOnDemand(const UnitPlan& plan, WeightStore& store, at::Device device, Leaving leaving,
                                 Stream& compute)
    : plan_(plan),
      store_(store),
      device_(device),
      leaving_(std::move(leaving)),
      compute_(compute),
      residency_(kHeldUnits),
      units_(plan.units.size()),
      watch_({.before =
                  [this](std::span<const int> units) {
                    act(residency_.use(units));
                    for (const int u : units) {
                      Memory& memory = units_[static_cast<size_t>(u)];
                      if (!std::exchange(memory.awaited, true)) compute_.wait(memory.event);
                    }
                  },
              .after = [this](std::span<const int> units) { act(residency_.release(units)); }},
             "ZeroOptimizer: a parameter of stage 3 is used after the optimizer, which held its values: copy them with "
             "weights() before") {
  for (size_t u = 0; u < plan.units.size(); ++u)
    storages_.push_back(
        watch_.add(static_cast<int>(u), plan.units[u].layout.count * size_of(plan.units[u].weight), device));
}

WeightsOnDemand::~WeightsOnDemand() {
  for (const c10::Storage& storage : storages_) OperandWatch::set_memory(storage, nullptr);
  for (Memory& memory : units_)
    if (memory.buffer.defined() && !memory.awaited) memory.event.wait();
}

at::Tensor WeightsOnDemand::parameter(int unit, int index, const at::Tensor& like) const {
  return OperandWatch::view(storages_[static_cast<size_t>(unit)], like,
                            plan_.units[static_cast<size_t>(unit)].layout.begin[static_cast<size_t>(index)]);
}

void WeightsOnDemand::act(const std::vector<UnitResidency::Action>& actions) {
  for (const auto& [kind, unit] : actions) kind == UnitResidency::Action::Kind::gather ? gather(unit) : evict(unit);
}

// Free memory of this size; if there is none, what is free of other sizes is given back first.
WeightsOnDemand::Memory WeightsOnDemand::memory_for(int64_t count, DType dtype) {
  const auto fits = [&](const Memory& m) {
    return m.buffer.numel() == count && m.buffer.scalar_type() == scalar_type(dtype);
  };
  const auto found = std::ranges::find_if(free_, fits);
  if (found != free_.end()) {
    Memory memory = std::move(*found);
    free_.erase(found);
    return memory;
  }
  free_.clear();
  return {.buffer = flat_zeros(count, dtype, device_), .event = compute_.record()};
}

void WeightsOnDemand::gather(int unit) {
  const Unit& u = plan_.units[static_cast<size_t>(unit)];
  Memory memory = memory_for(u.layout.count, u.weight);
  memory.event = store_.gather(unit, memory.buffer, memory.event);
  memory.awaited = false;
  OperandWatch::set_memory(storages_[static_cast<size_t>(unit)], memory.buffer.mutable_data_ptr());
  units_[static_cast<size_t>(unit)] = std::move(memory);
}

void WeightsOnDemand::evict(int unit) {
  Memory memory = std::exchange(units_[static_cast<size_t>(unit)], {});
  if (!memory.awaited) compute_.wait(memory.event);
  leaving_(unit, parameter_views(plan_.units[static_cast<size_t>(unit)].layout, memory.buffer));
  OperandWatch::set_memory(storages_[static_cast<size_t>(unit)], nullptr);
  free_.push_back({.buffer = std::move(memory.buffer), .event = compute_.record()});
}

void WeightsOnDemand::evict_all() { act(residency_.clear()); }

int64_t WeightsOnDemand::bytes() const {
  int64_t total = 0;
  for (const auto* all : {&units_, &free_})
    for (const Memory& memory : *all)
      if (memory.buffer.defined()) total += static_cast<int64_t>(memory.buffer.nbytes());
  return total;
}

}  // namespace partita::internal
