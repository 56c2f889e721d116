#include "partita/shard/grad_store.h"

#include "partita/base/error.h"
#include "partita/ops/flat.h"
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
      slot_plan_(plan_slots(plan, zero.few_gradients, SlotsFor::gradients)),
      options_(options),
      compute_(compute),
      side_(side) {
  slots_.resize(slot_plan_.slot_count.size());
  states_.resize(plan.units.size());
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    if (!unit.trainable) continue;
    Slot& own = slot(static_cast<int>(u));
    if (!own.buffer.defined())
      own.buffer = flat_in(options.buffers, u, slot_plan_.slot_count[static_cast<size_t>(slot_plan_.slot_of_unit[u])],
                           unit.gradient, options.device);
    UnitState& state = states_[u];
    state.views = parameter_views(unit.layout, own.buffer);
    state.written.assign(state.views.size(), false);
    state.slice = own_slices(zero)
                      ? own.buffer
                      : flat_in(options.slices, u, unit.layout.slice_count(), unit.gradient_sum, options.device);
    const bool adds = zero.few_gradients && options.micro_batches > 1;
    if (adds && (!own.arriving.defined() || own.arriving.numel() < unit.layout.slice_count()))
      own.arriving = flat_zeros(unit.layout.slice_count(), DType::fp32, options.device);
  }
}

void GradStore::take(int unit) {
  UnitState& state = states_[static_cast<size_t>(unit)];
  if (state.taken) return;
  Slot& target = slot(unit);
  settle(target);  // what an older unit left here is still being read
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
      reduce(unit);
}

void GradStore::reduce(int unit) {
  const Layout& layout = plan_.units[static_cast<size_t>(unit)].layout;
  UnitState& state = states_[static_cast<size_t>(unit)];
  Slot& source = slot(unit);
  for (size_t p = 0; p < state.views.size(); ++p)
    if (!state.written[p]) state.views[p].zero_();
  const at::Tensor full = source.buffer.narrow(0, 0, layout.count);
  zero_padding(layout, full);
  state.taken = false;
  if (own_slices(zero_)) {
    state.in_slice = true;
    return;
  }
  source.add = state.in_slice;
  const at::Tensor into = source.add ? source.arriving.narrow(0, 0, layout.slice_count()) : state.slice;
  side_.wait(compute_.record());
  source.reduced = zero_.shard->reduce_scatter(into, full, side_);
  source.pending = true;
  state.in_slice = true;
  ++reductions_;
}

void GradStore::settle(Slot& source) {
  if (!source.pending) return;
  compute_.wait(source.reduced);
  source.pending = false;
  if (source.add) {
    const at::Tensor& slice = states_[static_cast<size_t>(source.unit)].slice;
    add_into(slice, source.arriving.narrow(0, 0, slice.numel()), true);
  }
}

void GradStore::finish() {
  for (Slot& s : slots_) settle(s);
  for (UnitState& state : states_) {
    if (!state.slice.defined()) continue;
    PARTITA_CHECK(state.in_slice, "a unit was not reduced: close was not called for the last micro-batch");
    state.in_slice = false;
  }
  if (zero_.replica->size() == 1) return;
  side_.wait(compute_.record());
  std::vector<Event> sums;
  for (UnitState& state : states_)
    if (state.slice.defined()) sums.push_back(zero_.replica->all_reduce(state.slice, Reduce::sum, side_));
  for (const Event& event : sums) compute_.wait(event);
}

void GradStore::sum_of_squares(at::Tensor out) const {
  if (zero_.replica->rank() != 0) return;
  for (const UnitState& state : states_)
    if (state.slice.defined()) partita::sum_of_squares(state.slice, out);
}

int64_t GradStore::bytes() const {
  int64_t total = 0;
  for (const Slot& s : slots_)
    total += static_cast<int64_t>(s.buffer.nbytes() + (s.arriving.defined() ? s.arriving.nbytes() : 0));
  for (size_t u = 0; u < states_.size(); ++u)
    if (states_[u].slice.defined() && !own_slices(zero_))
      total += static_cast<int64_t>(states_[u].slice.nbytes());
  return total;
}

}  // namespace partita
