#include "partita/shard/grad_store.h"

#include <ATen/ops/zeros.h>

#include "partita/base/error.h"
#include "partita/ops/flat.h"
#include "partita/ops/host_memory.h"
#include "partita/ops/matmul.h"
#include "partita/ops/scalar_type.h"
#include "partita/shard/collective_plan.h"
#include "partita/shard/flat_buffer.h"

namespace partita {
namespace {

// [count] of a dtype in memory that is given, or fresh.
at::Tensor flat_in(const std::vector<at::Tensor>& given, size_t unit, int64_t count, DType dtype, at::Device device) {
  if (unit >= given.size() || !given[unit].defined()) return flat_zeros(count, dtype, device);
  return given[unit].narrow(0, 0, count * size_of(dtype)).view(scalar_type(dtype));
}

bool own_slices(const Zero& zero) { return is_own_slice(zero.shard->size(), zero.few_gradients); }

}  // namespace

class GradStore::BlockGrads final : public Grads {
 public:
  BlockGrads(GradStore& store, int block)
      : store_(store), placements_(store.plan_.blocks[static_cast<size_t>(block)]) {}

  Target target(int parameter) override {
    const Placement place = placements_[static_cast<size_t>(parameter)];
    if (!store_.trainable(place.unit)) return {};
    UnitState& state = store_.states_[static_cast<size_t>(place.unit)];
    const auto index = static_cast<size_t>(place.parameter);
    const bool accumulate = state.written[index];
    state.written[index] = true;
    return {.gradient = state.views[index], .accumulate = accumulate};
  }

  void matmul(int parameter, at::Tensor d_y, at::Tensor x, float scale) override {
    const Target t = target(parameter);
    if (t.gradient.defined()) linear_backward_weight(t.gradient, d_y, x, t.accumulate, scale);
  }

 private:
  GradStore& store_;
  const std::vector<Placement>& placements_;
};

GradStore::GradStore(const UnitPlan& plan, const Zero& zero, Options options, Stream& compute, Stream& side)
    : plan_(plan),
      zero_(zero),
      options_(std::move(options)),
      shared_(zero.few_gradients || (options_.copies != nullptr && options_.micro_batches == 1)),
      slot_plan_(plan_slots(plan, shared_, SlotsFor::gradients)),
      compute_(compute),
      side_(side) {
  slots_.resize(slot_plan_.slot_count.size());
  states_.resize(plan.units.size());
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    if (!unit.trainable) continue;
    Slot& own = slot(static_cast<int>(u));
    if (!own.buffer.defined())
      own.buffer = flat_in(options_.buffers, u, slot_plan_.slot_count[static_cast<size_t>(slot_plan_.slot_of_unit[u])],
                           unit.gradient, options_.device);
    UnitState& state = states_[u];
    state.views = parameter_views(unit.layout, own.buffer);
    state.written.assign(state.views.size(), false);
    const int64_t count = unit.layout.slice_count();
    const bool own_slice = own_slices(zero), adds = zero.few_gradients && options_.micro_batches > 1;
    const bool passes = leaves() && shared_ && !adds && !own_slice;  // reduced into `arriving`, whence it leaves
    if ((adds || passes) && (!own.arriving.defined() || own.arriving.numel() < count))
      own.arriving = flat_zeros(count, unit.gradient_sum, options_.device);
    if (own_slice)
      state.slice = own.buffer.narrow(0, 0, unit.layout.count);
    else if (!passes)
      state.slice = flat_in(options_.slices, u, count, unit.gradient_sum, options_.device);
  }
  if (!leaves()) return;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    if (!plan.units[u].trainable) continue;
    UnitState& state = states_[u];
    const int64_t count = plan.units[u].layout.slice_count();
    // Only now: the largest unit of the slot has decided how large it is.
    if (!state.slice.defined()) state.slice = slot(static_cast<int>(u)).arriving.narrow(0, 0, count);
    state.host = pinned_zeros(count, dtype_of(state.slice), options_.device);
  }
  squares_ =
      at::zeros({static_cast<int64_t>(plan.units.size())}, at::TensorOptions(at::kDouble).device(options_.device));
}

void GradStore::take(int unit) {
  UnitState& state = states_[static_cast<size_t>(unit)];
  if (state.taken) return;
  Slot& target = slot(unit);
  settle(target);  // what an older unit left here is still being read
  compute_.wait(target.copied);
  target.unit = unit;
  state.taken = true;
  state.written.assign(state.written.size(), false);
  if (options_.poison) poison(target.buffer);
}

std::unique_ptr<Grads> GradStore::open(int block) {
  for (int unit : plan_.units_of_block[static_cast<size_t>(block)])
    if (trainable(unit)) take(unit);
  return std::make_unique<BlockGrads>(*this, block);
}

void GradStore::close(int block, bool last_micro_batch) {
  for (int unit : plan_.units_of_block[static_cast<size_t>(block)])
    if (trainable(unit) && block == plan_.first_block[static_cast<size_t>(unit)] &&
        (zero_.few_gradients || last_micro_batch))
      reduce(unit, last_micro_batch);
}

void GradStore::reduce(int unit, bool last) {
  const Layout& layout = plan_.units[static_cast<size_t>(unit)].layout;
  UnitState& state = states_[static_cast<size_t>(unit)];
  Slot& source = slot(unit);
  for (size_t p = 0; p < state.views.size(); ++p)
    if (!state.written[p]) state.views[p].zero_();
  const at::Tensor full = source.buffer.narrow(0, 0, layout.count);
  zero_padding(layout, full);
  state.taken = false;
  source.add = state.in_slice && !own_slices(zero_);
  source.last = last;
  state.in_slice = true;
  if (own_slices(zero_)) {
    if (!leaves()) return;
    source.reduced = compute_.record();
  } else {
    const at::Tensor into = source.add ? source.arriving.narrow(0, 0, layout.slice_count()) : state.slice;
    side_.wait(compute_.record());
    source.reduced = zero_.shard->reduce_scatter(into, full, side_);
    ++reductions_;
  }
  source.pending = true;
  if (leaves() && last && !source.add) leave(unit, source.reduced);
}

void GradStore::leave(int unit, const Event& complete) {
  UnitState& state = states_[static_cast<size_t>(unit)];
  Slot& source = slot(unit);
  source.reduced = complete;
  if (zero_.replica->size() > 1) {
    side_.wait(complete);
    source.reduced = zero_.replica->all_reduce(state.slice, Reduce::sum, side_);
  }
  state.arrived = options_.copies->down(state.host, state.slice, source.reduced);
  source.copied = state.arrived;
}

void GradStore::settle(Slot& source) {
  if (!source.pending) return;
  compute_.wait(source.reduced);
  source.pending = false;
  const at::Tensor& slice = states_[static_cast<size_t>(source.unit)].slice;
  if (source.add) add_into(slice, source.arriving.narrow(0, 0, slice.numel()), true);
  if (!leaves() || !source.last) return;
  if (source.add) {
    leave(source.unit, compute_.record());
    compute_.wait(source.reduced);
  }
  const at::Tensor squares = squares_.narrow(0, source.unit, 1);
  squares.zero_();
  partita::sum_of_squares(slice, squares);
}

void GradStore::finish() {
  for (Slot& s : slots_) settle(s);
  for (UnitState& state : states_) {
    if (!state.slice.defined()) continue;
    PARTITA_CHECK(state.in_slice, "a unit was not reduced: close was not called for the last micro-batch");
    state.in_slice = false;
  }
  if (zero_.replica->size() == 1 || leaves()) return;
  side_.wait(compute_.record());
  std::vector<Event> sums;
  for (UnitState& state : states_)
    if (state.slice.defined()) sums.push_back(zero_.replica->all_reduce(state.slice, Reduce::sum, side_));
  for (const Event& event : sums) compute_.wait(event);
}

void GradStore::sum_of_squares(at::Tensor out) const {
  if (zero_.replica->rank() != 0) return;
  for (size_t u = 0; u < states_.size(); ++u) {
    if (!states_[u].slice.defined()) continue;
    if (leaves())
      out.add_(squares_.narrow(0, static_cast<int64_t>(u), 1));
    else
      partita::sum_of_squares(states_[u].slice, out);
  }
}

int64_t GradStore::bytes() const {
  int64_t total = 0;
  for (const Slot& s : slots_)
    total += static_cast<int64_t>(s.buffer.nbytes() + (s.arriving.defined() ? s.arriving.nbytes() : 0));
  for (size_t u = 0; u < states_.size(); ++u) {
    const at::Tensor& slice = states_[u].slice;
    if (!slice.defined() || own_slices(zero_)) continue;
    const at::Tensor& arriving = slots_[static_cast<size_t>(slot_plan_.slot_of_unit[u])].arriving;
    if (!arriving.defined() || !slice.is_alias_of(arriving)) total += static_cast<int64_t>(slice.nbytes());
  }
  return total;
}

int64_t GradStore::host_bytes() const {
  int64_t total = 0;
  for (const UnitState& state : states_)
    if (state.host.defined()) total += static_cast<int64_t>(state.host.nbytes());
  return total;
}

}  // namespace partita
