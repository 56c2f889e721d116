#include "partita/engine/host_states.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "partita/device/host_memory.h"

namespace partita::internal {

HostStates::HostStates(const UnitPlan& plan, const Options& options, Copies& copies)
    : copies_(copies), units_(plan.units.size()) {
  const bool own_weight = options.master != options.weight;
  std::array<int64_t, 2> largest = {0, 0};
  size_t turn = 0;
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!plan.units[u].on_host()) continue;
    UnitStates& unit = units_[u];
    const int64_t count = plan.units[u].layout.slice_count();
    // Only memory that the device reads is pinned.
    unit.master = own_weight ? host_zeros(count, options.master) : pinned_zeros(count, options.master, options.device);
    for (int s = 0; s < options.states; ++s) unit.states.push_back(host_zeros(count, options.master));
    unit.staging = own_weight ? turn++ % 2 : u;
    if (own_weight) largest[unit.staging] = std::max(largest[unit.staging], count);
  }
  sent_.resize(own_weight ? largest.size() : units_.size());
  if (own_weight)
    for (const int64_t count : largest) staging_.push_back(pinned_zeros(count, options.weight, options.device));
  for (UnitStates& unit : units_)
    if (unit.master.defined())
      unit.weight = own_weight ? staging_[unit.staging].narrow(0, 0, unit.master.numel()) : unit.master;
}

Event HostStates::update(int unit, at::Tensor slice, const Event& after, std::function<void()> work) {
  Event updated = worker_.submit([this, unit, slice, after, work = std::move(work)] {
    const UnitStates& states = units_[static_cast<size_t>(unit)];
    Event& sent = sent_[states.staging];
    sent.wait();  // the previous copy out of the staging buffer is complete
    work();
    sent = copies_.up(slice, states.weight, after);
    return sent;
  });
  given_.push_back(updated);
  return updated;
}

void HostStates::finish() {
  const std::vector<Event> given = std::exchange(given_, {});
  std::exception_ptr first;
  for (const Event& event : given) {
    try {
      event.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

int64_t HostStates::bytes() const {
  int64_t total = 0;
  for (const at::Tensor& staging : staging_) total += static_cast<int64_t>(staging.nbytes());
  for (const UnitStates& unit : units_) {
    if (unit.master.defined()) total += static_cast<int64_t>(unit.master.nbytes());
    for (const at::Tensor& state : unit.states) total += static_cast<int64_t>(state.nbytes());
  }
  return total;
}

}  // namespace partita::internal
