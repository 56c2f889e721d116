#include "partita/module/weights_on_demand.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/device/scalar_type.h"
#include "partita/shard/flat_buffer.h"

namespace partita::internal {
namespace {

// The unit in use, the one before, whose last operations may follow, and the next one.
constexpr int kHeldUnits = 3;

}  // namespace

WeightsOnDemand::WeightsOnDemand(const UnitPlan& plan, WeightStore& store, at::Device device, Leaving leaving,
                                 Communicator& shard, Stream& compute)
    : plan_(plan),
      store_(store),
      device_(device),
      leaving_(std::move(leaving)),
      shard_(shard),
      compute_(compute),
      caller_(device, compute),
      residency_(kHeldUnits),
      units_(plan.units.size()),
      kept_count_(kept_count()),
      watch_({.before = [this](std::span<const int> units) { caller_.run([&] { use(units); }); },
              .after =
                  [this](std::span<const int> used, std::span<const int> written) {
                    if (!failed_) caller_.run([&] { release(used, written); });
                  }},
             "ZeroOptimizer: a parameter of stage 3 is used after the optimizer, which held its values: copy them with "
             "weights() before") {
  for (size_t u = 0; u < plan.units.size(); ++u)
    storages_.push_back(
        watch_.add(static_cast<int>(u), plan.units[u].layout.count * size_of(plan.units[u].weight), device));
}

WeightsOnDemand::~WeightsOnDemand() {
  for (const c10::Storage& storage : storages_) OperandWatch::set_memory(storage, nullptr);
  for (Memory& memory : units_) try {
      if (memory.buffer.defined() && !memory.awaited) memory.event.wait();
    } catch (...) {  // other ranks have failed, which is reported elsewhere
    }
}

at::Tensor WeightsOnDemand::parameter(int unit, int index, const at::Tensor& like) const {
  return OperandWatch::view(storages_[static_cast<size_t>(unit)], like,
                            plan_.units[static_cast<size_t>(unit)].layout.begin[static_cast<size_t>(index)]);
}

void WeightsOnDemand::act(const std::vector<UnitResidency::Action>& actions) {
  if (failed_) fail("ZeroOptimizer: an earlier gather of weights failed");
  failed_ = true;  // until all is done
  using Kind = UnitResidency::Action::Kind;
  auto gathers = std::ranges::count(actions, Kind::gather, &UnitResidency::Action::kind);
  for (const auto& [kind, unit] : actions) kind == Kind::gather ? gather(unit, --gathers < kHeldUnits) : evict(unit);
  failed_ = false;
}

// Memory is shown when it is complete: until then, a read that is not reported is an error of torch.
void WeightsOnDemand::use(std::span<const int> units) {
  act(residency_.use(units));
  for (const int unit : units) {
    Memory& memory = units_[static_cast<size_t>(unit)];
    if (memory.awaited) continue;
    compute_.wait(memory.event);
    memory.awaited = true;
    OperandWatch::set_memory(storages_[static_cast<size_t>(unit)], memory.buffer.mutable_data_ptr());
  }
}

void WeightsOnDemand::release(std::span<const int> used, std::span<const int> written) {
  for (const int u : written) units_[static_cast<size_t>(u)].written = true;
  act(residency_.release(used));
}

// The largest unit but for those of more than twice the usual size, such as a large table, which get memory while they
// are there.
int64_t WeightsOnDemand::kept_count() const {
  std::vector<int64_t> counts;
  for (const Unit& unit : plan_.units) counts.push_back(unit.layout.count);
  std::ranges::sort(counts);
  const int64_t most = 2 * counts[counts.size() / 2];
  return *std::prev(std::ranges::upper_bound(counts, most));
}

// Memory is kept for as many units as are usually there. Ranks use units in the same order, and so share this memory at
// the same places.
WeightsOnDemand::Memory WeightsOnDemand::memory_for(const Unit& unit, bool stays) {
  const bool fits = unit.layout.count <= kept_count_;
  if (stays && fits && !free_.empty()) {
    Memory memory = std::move(free_.front());  // its readers end first
    free_.pop_front();
    return memory;
  }
  const bool keeps = stays && fits && kept_ < kHeldUnits;
  kept_ += keeps ? 1 : 0;
  return {.buffer = keeps ? shared_zeros(shard_, kept_count_, unit.weight, device_)
                          : at::empty({unit.layout.count}, at::TensorOptions(scalar_type(unit.weight)).device(device_)),
          .event = compute_.record(),
          .kept = keeps};
}

void WeightsOnDemand::gather(int unit, bool stays) {
  const Unit& u = plan_.units[static_cast<size_t>(unit)];
  Memory memory = memory_for(u, stays);
  memory.event = store_.gather(unit, memory.buffer, memory.event);
  units_[static_cast<size_t>(unit)] = std::move(memory);
  order_ = mix(order_ ^ static_cast<uint64_t>(unit + 1));
}

void WeightsOnDemand::evict(int unit) {
  OperandWatch::set_memory(storages_[static_cast<size_t>(unit)], nullptr);
  Memory memory = std::exchange(units_[static_cast<size_t>(unit)], {});
  if (!memory.awaited) compute_.wait(memory.event);
  if (memory.written) leaving_(unit, parameter_views(plan_.units[static_cast<size_t>(unit)].layout, memory.buffer));
  if (memory.kept) free_.push_back({.buffer = std::move(memory.buffer), .event = compute_.record(), .kept = true});
}

void WeightsOnDemand::evict_all() { act(residency_.clear()); }

int64_t WeightsOnDemand::bytes() const {
  int64_t total = 0;
  const auto add = [&total](const Memory& memory) {
    if (memory.buffer.defined()) total += static_cast<int64_t>(memory.buffer.nbytes());
  };
  std::ranges::for_each(units_, add);
  std::ranges::for_each(free_, add);
  return total;
}

}  // namespace partita::internal
