#include "partita/shard/weight_store.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/ops/flat.h"
#include "partita/shard/flat_buffer.h"

namespace partita::internal {

WeightStore::WeightStore(const UnitPlan& plan, const Zero& zero, Options options, Stream& compute,
                         Stream& communication)
    : plan_(plan),
      zero_(zero),
      slot_plan_(weight_slots(plan, zero.sharding)),
      options_(std::move(options)),
      compute_(compute),
      communication_(communication),
      written_(plan.units.size()),
      versions_(plan.units.size(), 0) {
  if (std::ranges::any_of(plan.units, [](const Unit& unit) { return unit.weights != StatesPlace::device; })) {
    PARTITA_CHECK(options_.copies != nullptr && !options_.on_demand, "weights off the device without copies");
    off_device_ = std::make_unique<WeightsOffDevice>(plan, options_.disk_folder, options_.device, *options_.copies);
  }
  for (size_t s = 0; s < slot_plan_.slot_count.size() && !options_.on_demand; ++s)
    slots_.push_back({.buffer = make_buffer(s), .unit = -1, .version = -1, .ready = {}, .free = {}});
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const bool from_master = u < options_.masters.size() && options_.masters[u].defined();
    if (slice_in_slot(u))
      slices_.push_back(own_part(static_cast<int>(u), slot(static_cast<int>(u)).buffer));  // gathered in place
    else if (place(static_cast<int>(u)) != StatesPlace::device)
      slices_.push_back(off_device_->slice(static_cast<int>(u)));
    else
      slices_.push_back(from_master
                            ? at::Tensor()
                            : flat_zeros(plan.units[u].layout.slice_count(), plan.units[u].weight, options_.device));
  }
  if (options_.on_demand) return;
  std::vector<std::vector<at::Tensor>> of_unit;
  for (size_t u = 0; u < plan.units.size(); ++u)
    of_unit.push_back(parameter_views(plan.units[u].layout, slot(static_cast<int>(u)).buffer));
  for (const auto& placements : plan.blocks) {
    std::vector<at::Tensor>& views = views_.emplace_back();
    for (const Placement& p : placements)
      views.push_back(of_unit[static_cast<size_t>(p.unit)][static_cast<size_t>(p.parameter)]);
  }
}

// Only slots of several units are shared memory, which belongs to the group: parameters of a user's module may be views
// of the others, and live longer than the group.
at::Tensor WeightStore::make_buffer(size_t slot) const {
  const int64_t count = slot_plan_.slot_count[slot];
  const DType dtype = slot_plan_.slot_dtype[slot];
  const auto first = std::ranges::find(slot_plan_.slot_of_unit, static_cast<int>(slot));
  if (slot_plan_.shared(static_cast<int>(first - slot_plan_.slot_of_unit.begin())))
    return shared_zeros(*zero_.shard, count, dtype, options_.device);
  return flat_zeros(count, dtype, options_.device);
}

at::Tensor WeightStore::own_part(int unit, const at::Tensor& buffer) const {
  const int64_t count = plan_.units[static_cast<size_t>(unit)].layout.slice_count();
  return buffer.narrow(0, zero_.shard->rank() * count, count);
}

// Blocks this thread until the host has written the slice.
Event WeightStore::fetch(int unit, const at::Tensor& memory, const Event& free) {
  written_[static_cast<size_t>(unit)].wait();
  return off_device_->fetch(unit, own_part(unit, memory), free);
}

Event WeightStore::gather(int unit, const at::Tensor& memory, const Event& free) {
  if (place(unit) != StatesPlace::device) {
    const Event fetched = fetch(unit, memory, free);
    if (zero_.shard->size() == 1) return fetched;
    communication_.wait(fetched);
    return zero_.shard->all_gather(memory.narrow(0, 0, plan_.units[static_cast<size_t>(unit)].layout.count),
                                   own_part(unit, memory), communication_);
  }
  communication_.wait(free);
  communication_.wait(written_[static_cast<size_t>(unit)]);
  at::Tensor mine = slice(unit);
  if (!mine.defined()) {
    mine = own_part(unit, memory);
    communication_.run([&] { cast(mine, options_.masters[static_cast<size_t>(unit)]); });
  }
  return zero_.shard->all_gather(memory.narrow(0, 0, plan_.units[static_cast<size_t>(unit)].layout.count), mine,
                                 communication_);
}

void WeightStore::gather(int unit, Slot& target) {
  target.unit = unit;
  target.version = versions_[static_cast<size_t>(unit)];
  if (is_gathered(plan_.units[static_cast<size_t>(unit)], zero_.sharding))
    target.ready = gather(unit, target.buffer, target.free);
  else
    target.ready = written_[static_cast<size_t>(unit)];
}

bool WeightStore::holds(int unit) const {
  const Slot& target = slots_[static_cast<size_t>(slot_plan_.slot_of_unit[static_cast<size_t>(unit)])];
  return target.unit == unit && target.version == versions_[static_cast<size_t>(unit)];
}

void WeightStore::ensure(int unit) {
  if (holds(unit)) return;
  Slot& target = slot(unit);
  communication_.wait(target.ready);  // a prefetch that was never used may still be writing
  gather(unit, target);
}

void WeightStore::begin(const UsePlan& uses) {
  uses_ = &uses;
  next_ = 0;
  times_ = uses.times - 1;
}

const UsePlan::Turn& WeightStore::turn() const { return uses_->turns[next_]; }

std::span<const at::Tensor> WeightStore::use(int block, Pass pass) {
  PARTITA_CHECK(uses_ != nullptr && next_ < uses_->uses.size() && uses_->uses[next_].block == block &&
                    uses_->uses[next_].pass == pass,
                "block {} is not use {} of the plan", block, next_);
  for (const int unit : turn().units) {
    ensure(unit);
    compute_.wait(slot(unit).ready);
  }
  return views_[static_cast<size_t>(block)];
}

// A unit on disk is read only: its copy and gather, which wait for that, would make this thread wait.
void WeightStore::prefetch() {
  for (const int unit : turn().prefetch)
    if (place(unit) != StatesPlace::disk)
      ensure(unit);
    else if (!holds(unit) && written_[static_cast<size_t>(unit)].done())
      off_device_->read_ahead(unit);
}

void WeightStore::release() {
  if (options_.poison)
    for (const int unit : turn().evicted) {
      poison(slot(unit).buffer);
      slot(unit).unit = -1;
    }
  for (const int unit : turn().released) slot(unit).free = compute_.record();
  ++next_;
  if (next_ == uses_->head && times_ > 0) {
    next_ = 0;
    --times_;
  }
}

void WeightStore::publish(int unit, const Event& written) {
  ++versions_[static_cast<size_t>(unit)];
  written_[static_cast<size_t>(unit)] = written;
  if (off_device_) off_device_->forget(unit);
  // A copy from host memory would make this thread wait for the host.
  if (!options_.on_demand && !slot_plan_.shared(unit) && place(unit) == StatesPlace::device) ensure(unit);
}

void WeightStore::finish() const {
  for (const Slot& s : slots_) compute_.wait(s.ready);
}

int64_t WeightStore::bytes() const {
  int64_t total = 0;
  for (const Slot& s : slots_) total += static_cast<int64_t>(s.buffer.nbytes());
  for (size_t u = 0; u < slices_.size(); ++u)
    if (!slice_in_slot(u) && place(static_cast<int>(u)) == StatesPlace::device && slices_[u].defined())
      total += static_cast<int64_t>(slices_[u].nbytes());
  return total;
}

}  // namespace partita::internal
