#include "partita/shard/weight_store.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/ops/flat.h"
#include "partita/shard/collective_plan.h"
#include "partita/shard/flat_buffer.h"

namespace partita {

WeightStore::WeightStore(const UnitPlan& plan, const Zero& zero, std::vector<bool> backward_reads, Options options,
                         Stream& compute, Stream& side)
    : plan_(plan),
      zero_(zero),
      slot_plan_(plan_slots(plan, zero.few_weights, SlotsFor::weights)),
      backward_reads_(std::move(backward_reads)),
      options_(std::move(options)),
      compute_(compute),
      side_(side),
      last_reader_(plan.units.size(), -1),
      written_(plan.units.size()),
      versions_(plan.units.size(), 0) {
  for (size_t b = plan.blocks.size(); b-- > 0;)
    if (backward_reads_[b])
      for (int unit : plan.units_of_block[b]) last_reader_[static_cast<size_t>(unit)] = static_cast<int>(b);
  const DType dtype = plan.units.front().weight;
  for (int64_t count : slot_plan_.slot_count)
    slots_.push_back(
        {.buffer = flat_zeros(count, dtype, options_.device), .unit = -1, .version = -1, .ready = {}, .free = {}});
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Layout& layout = plan.units[u].layout;
    const int unit = static_cast<int>(u);
    // Where the unit keeps its slot the slice lies in it, at its place, and is gathered in place.
    const bool inside = !zero.few_weights || plan.units[u].pool == Pool::own;
    const bool from_master = u < options_.masters.size() && options_.masters[u].defined();
    if (inside)
      slices_.push_back(own_part(unit, slot(unit)));
    else
      slices_.push_back(from_master ? at::Tensor() : flat_zeros(layout.slice_count(), dtype, options_.device));
  }
  std::vector<std::vector<at::Tensor>> of_unit;
  for (size_t u = 0; u < plan.units.size(); ++u)
    of_unit.push_back(parameter_views(plan.units[u].layout, slot(static_cast<int>(u)).buffer));
  for (const auto& placements : plan.blocks) {
    std::vector<at::Tensor>& views = views_.emplace_back();
    for (const Placement& p : placements)
      views.push_back(of_unit[static_cast<size_t>(p.unit)][static_cast<size_t>(p.parameter)]);
  }
}

at::Tensor WeightStore::own_part(int unit, const Slot& held) const {
  const int64_t count = plan_.units[static_cast<size_t>(unit)].layout.slice_count();
  return held.buffer.narrow(0, zero_.shard->rank() * count, count);
}

bool WeightStore::gathers(int unit) const {
  return is_gathered(plan_.units[static_cast<size_t>(unit)], zero_.shard->size(), zero_.few_weights);
}

void WeightStore::gather(int unit, Slot& target) {
  const Layout& layout = plan_.units[static_cast<size_t>(unit)].layout;
  target.unit = unit;
  target.version = versions_[static_cast<size_t>(unit)];
  if (!gathers(unit)) {
    target.ready = written_[static_cast<size_t>(unit)];
    return;
  }
  side_.wait(target.free);
  side_.wait(written_[static_cast<size_t>(unit)]);
  at::Tensor mine = slice(unit);
  if (!mine.defined()) {
    mine = own_part(unit, target);
    side_.run([&] { cast(mine, options_.masters[static_cast<size_t>(unit)]); });
  }
  target.ready = zero_.shard->all_gather(target.buffer.narrow(0, 0, layout.count), mine, side_);
}

void WeightStore::ensure(int unit) {
  Slot& target = slot(unit);
  if (target.unit == unit && target.version == versions_[static_cast<size_t>(unit)]) return;
  side_.wait(target.ready);  // a gather that nobody used is still writing
  gather(unit, target);
}

std::span<const at::Tensor> WeightStore::use(int block, Pass pass) {
  if (pass == Pass::forward || backward_reads_[static_cast<size_t>(block)])
    for (int unit : plan_.units_of_block[static_cast<size_t>(block)]) {
      ensure(unit);
      compute_.wait(slot(unit).ready);
    }
  return views_[static_cast<size_t>(block)];
}

void WeightStore::prefetch(int block, Pass pass) {
  const int blocks = static_cast<int>(plan_.blocks.size());
  const int step = pass == Pass::forward ? 1 : -1;
  const auto& now = plan_.units_of_block[static_cast<size_t>(block)];
  for (int next = block + step; next >= 0 && next < blocks; next += step) {
    if (pass == Pass::backward && !backward_reads_[static_cast<size_t>(next)]) continue;
    bool other = false;
    for (int unit : plan_.units_of_block[static_cast<size_t>(next)]) {
      if (std::ranges::find(now, unit) != now.end()) continue;
      other = true;
      const bool in_use = std::ranges::any_of(now, [&](int u) { return &slot(u) == &slot(unit); });
      if (!in_use) ensure(unit);
    }
    if (other) return;
  }
}

// The last units of forward are the first of backward, and the other way round: they stay for the next pass.
bool WeightStore::stays(int unit, Pass pass) const {
  const int mine = slot_plan_.slot_of_unit[static_cast<size_t>(unit)];
  const int units = static_cast<int>(plan_.units.size());
  for (int other = 0; other < units; ++other) {
    const bool later = pass == Pass::forward ? other > unit : other < unit;
    if (later && slot_plan_.slot_of_unit[static_cast<size_t>(other)] == mine) return false;
  }
  return true;
}

void WeightStore::release(int block, Pass pass) {
  const auto index = static_cast<size_t>(block);
  if (pass == Pass::backward && !backward_reads_[index]) return;
  for (int unit : plan_.units_of_block[index]) {
    const auto u = static_cast<size_t>(unit);
    const bool last = block == (pass == Pass::forward ? plan_.last_block[u] : last_reader_[u]);
    if (!last) continue;
    Slot& held = slot(unit);
    if (options_.poison && slot_plan_.shared(unit) && !stays(unit, pass)) {
      poison(held.buffer);
      held.unit = -1;
    }
    held.free = compute_.record();
  }
}

void WeightStore::publish(int unit, const Event& written) {
  ++versions_[static_cast<size_t>(unit)];
  written_[static_cast<size_t>(unit)] = written;
  if (!slot_plan_.shared(unit)) ensure(unit);
}

int64_t WeightStore::bytes() const {
  int64_t total = 0;
  for (const Slot& s : slots_) total += static_cast<int64_t>(s.buffer.nbytes());
  for (size_t u = 0; u < slices_.size(); ++u)
    if (zero_.few_weights && plan_.units[u].pool != Pool::own && slices_[u].defined())
      total += static_cast<int64_t>(slices_[u].nbytes());
  return total;
}

}  // namespace partita
