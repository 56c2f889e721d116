#include "partita/shard/gradient_store.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/scalar_type.h"
#include "partita/ops/flat.h"
#include "partita/ops/matmul.h"
#include "partita/shard/flat_buffer.h"

namespace partita::internal {
namespace {

// [count] of a dtype in the given memory; undefined: none is given.
at::Tensor given_memory(const std::vector<at::Tensor>& given, size_t unit, int64_t count, DType dtype) {
  if (unit >= given.size() || !given[unit].defined()) return {};
  return given[unit].narrow(0, 0, count * size_of(dtype)).view(scalar_type(dtype));
}

int64_t bytes_of(const at::Tensor& tensor) { return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0; }

}  // namespace

class GradientStore::BlockGrads final : public Grads {
 public:
  BlockGrads(GradientStore& store, int block)
      : store_(store), placements_(store.plan_.blocks[static_cast<size_t>(block)]) {}

  [[nodiscard]] bool trains(int parameter) const override {
    return store_.trainable(placements_[static_cast<size_t>(parameter)].unit);
  }

  Target target(int parameter) override {
    const Placement place = placements_[static_cast<size_t>(parameter)];
    if (!store_.trainable(place.unit)) return {};
    UnitGradient& unit = store_.units_[static_cast<size_t>(place.unit)];
    const auto index = static_cast<size_t>(place.parameter);
    const bool accumulate = unit.written[index];
    unit.written[index] = true;
    return {.gradient = unit.views[index], .accumulate = accumulate};
  }

  void matmul(int parameter, at::Tensor d_y, at::Tensor x, float scale) override {
    const Target t = target(parameter);
    if (t.gradient.defined()) linear_backward_weight(t.gradient, d_y, x, t.accumulate, scale);
  }

 private:
  GradientStore& store_;
  const std::vector<Placement>& placements_;
};

GradientStore::GradientStore(const UnitPlan& plan, const Zero& zero, Options options, Stream& compute,
                             Stream& communication)
    : plan_(plan),
      zero_(zero),
      options_(std::move(options)),
      gradients_(plan_gradients(plan, zero.sharding, options_.micro_batches)),
      compute_(compute),
      communication_(communication),
      slots_(gradients_.slots.slot_count.size()),
      units_(plan.units.size()),
      squares_(plan.units.size(), options_.device) {
  for (size_t s = 0; s < slots_.size(); ++s)
    if (gradients_.receive_count[s] > 0)
      slots_[s].receive_buffer = flat_zeros(gradients_.receive_count[s], gradients_.receive_dtype[s], options_.device);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    if (gradients_.slice[u] == SliceMemory::none) continue;
    const auto index = static_cast<size_t>(gradients_.slots.slot_of_unit[u]);
    Slot& own = slots_[index];
    if (!own.buffer.defined()) own.buffer = make_buffer(u, index);
    UnitGradient& unit = units_[u];
    unit.views = parameter_views(plan.units[u].layout, own.buffer);
    unit.written.assign(unit.views.size(), false);
    if (plan.units[u].stage_copy != ParameterSpec::Copy::second)
      unit.counted = counted_runs(plan.units[u].layout, zero.shard->rank());
    for (const SharedRun& shared : shared_runs(plan.units[u].layout))
      unit.shared.push_back({.run = shared.run, .holders = holders_of(shared)});
    const int64_t count = gradients_.slice_count[u];
    if (gradients_.slice[u] == SliceMemory::full)
      unit.slice = own.buffer.narrow(0, 0, count);
    else if (gradients_.slice[u] == SliceMemory::receive)
      unit.slice = own.receive_buffer.narrow(0, 0, count);
    else if (!options_.transient_slices)
      unit.slice = make_slice(u);
  }
  if (std::ranges::find(gradients_.on_host, true) == gradients_.on_host.end()) return;
  PARTITA_CHECK(options_.copies != nullptr, "units on the host without copies");
  offload_ = std::make_unique<GradientOffload>(gradients_, options_.device, *zero.replica, *options_.copies);
}

// What replicas sum in place is memory that they share.
at::Tensor GradientStore::make_buffer(size_t unit, size_t slot) const {
  const int64_t count = gradients_.slots.slot_count[slot];
  const DType dtype = gradients_.slots.slot_dtype[slot];
  if (const at::Tensor given = given_memory(options_.buffers, unit, count, dtype); given.defined()) return given;
  if (gradients_.reduction == Reduction::in_place) return shared_zeros(*zero_.replica, count, dtype, options_.device);
  return flat_zeros(count, dtype, options_.device);
}

at::Tensor GradientStore::make_slice(size_t unit) const {
  const int64_t count = gradients_.slice_count[unit];
  const DType dtype = gradients_.slice_dtype[unit];
  if (options_.transient_slices)
    return at::empty({count}, at::TensorOptions(scalar_type(dtype)).device(options_.device));
  const at::Tensor given = given_memory(options_.slices, unit, count, dtype);
  return given.defined() ? given : flat_zeros(count, dtype, options_.device);
}

void GradientStore::acquire(int unit) {
  UnitGradient& target = units_[static_cast<size_t>(unit)];
  if (target.acquired) return;
  Slot& held = slot(unit);
  finish_reduction(held);  // of the slot's previous unit, whose gradient is still being read
  compute_.wait(held.copied);
  held.unit = unit;
  target.acquired = true;
  target.written.assign(target.written.size(), false);
  if (options_.poison) poison(held.buffer);
}

std::unique_ptr<Grads> GradientStore::open(int block) {
  for (const int unit : plan_.units_of_block[static_cast<size_t>(block)])
    if (trainable(unit)) acquire(unit);
  return std::make_unique<BlockGrads>(*this, block);
}

void GradientStore::close(int block, bool last_micro_batch) {
  for (const int unit : plan_.units_of_block[static_cast<size_t>(block)])
    if (trainable(unit) && block == plan_.first_block[static_cast<size_t>(unit)] &&
        (zero_.sharding.gradients || adds_on_host(unit) || last_micro_batch))
      reduce(unit, last_micro_batch);
}

void GradientStore::reduce(int unit, bool last) {
  const Layout& layout = plan_.units[static_cast<size_t>(unit)].layout;
  UnitGradient& state = units_[static_cast<size_t>(unit)];
  Slot& source = slot(unit);
  for (size_t p = 0; p < state.views.size(); ++p)
    if (!state.written[p]) state.views[p].zero_();
  if (!state.slice.defined()) state.slice = make_slice(static_cast<size_t>(unit));
  const at::Tensor full = source.buffer.narrow(0, 0, layout.count);
  zero_padding(layout, full);
  source.add = state.has_partial_sum && gradients_.reduction == Reduction::each_then_add && !adds_on_host(unit);
  source.complete = last;
  state.acquired = false;
  state.has_partial_sum = true;
  state.measured = state.sent = false;
  sum_shared(state, full);
  if (gradients_.reduction == Reduction::in_place) {
    if (!on_host(unit) && zero_.replica->size() == 1) return measure_early(unit, compute_.record());
    source.reduced = compute_.record();
    if (!leaves_at_once(unit) && zero_.replica->size() > 1) {  // complete: summed while backward goes on
      communication_.wait(source.reduced);
      source.reduced = zero_.replica->all_reduce(state.slice, Reduce::sum, communication_);
    }
  } else {
    const at::Tensor into = source.add ? source.receive_buffer.narrow(0, 0, layout.slice_count()) : state.slice;
    communication_.wait(compute_.record());
    source.reduced = zero_.shard->reduce_scatter(into, full, communication_);
  }
  source.reducing = true;
  if (adds_on_host(unit)) return send(unit, source.reduced, last);
  if (!last || source.add) return;
  if (leaves_at_once(unit))
    send(unit, source.reduced, last);
  else
    measure_early(unit, source.reduced);
}

bool GradientStore::final_when_reduced(int unit) const {
  const bool replicas_follow = zero_.replica->size() > 1 && gradients_.reduction != Reduction::in_place;
  return !replicas_follow && !held_by_two_stages(unit);
}

void GradientStore::measure(int unit) {
  UnitGradient& state = units_[static_cast<size_t>(unit)];
  squares_.measure(unit, state.slice, state.counted);
  state.measured = true;
}

void GradientStore::measure_early(int unit, const Event& complete) {
  if (options_.norm_stream == nullptr || zero_.replica->rank() != 0 || !final_when_reduced(unit)) return;
  options_.norm_stream->wait(complete);
  options_.norm_stream->run([this, unit] { measure(unit); });
}

Communicator* GradientStore::holders_of(const SharedRun& shared) const {
  for (Communicator* group : {zero_.tensor, zero_.key_value})
    if (group != nullptr && group->size() == shared.holders) return group;
  fail("no group of {} tensor-parallel ranks that hold the same parameters", shared.holders);
}

// Vectors, the key/value heads that several ranks hold, and what a plan replicates.
void GradientStore::sum_shared(const UnitGradient& unit, const at::Tensor& full) {
  for (const SharedGradient& shared : unit.shared)
    compute_.wait(
        shared.holders->all_reduce(full.narrow(0, shared.run.begin, shared.run.count), Reduce::sum, compute_));
}

void GradientStore::send(int unit, const Event& complete, bool last) {
  const GradientOffload::Sent sent =
      offload_->send(unit, units_[static_cast<size_t>(unit)].slice, complete, communication_);
  slot(unit).reduced = sent.summed;
  slot(unit).copied = sent.copied;
  units_[static_cast<size_t>(unit)].sent = true;
  if (last) sent_.push_back(unit);
}

void GradientStore::finish_reduction(Slot& source) {
  if (!source.reducing) return;
  compute_.wait(source.reduced);
  source.reducing = false;
  const at::Tensor& slice = units_[static_cast<size_t>(source.unit)].slice;
  if (source.add) add_into(slice, source.receive_buffer.narrow(0, 0, slice.numel()), true);
  if (!source.complete || adds_on_host(source.unit)) return;
  if (!leaves_at_once(source.unit)) {
    if (source.add) measure_early(source.unit, compute_.record());
    return;
  }
  if (source.add) {
    send(source.unit, compute_.record(), /*last=*/true);
    compute_.wait(source.reduced);
  }
  measure(source.unit);  // while it is still on the device
}

void GradientStore::finish() {
  for (Slot& s : slots_) finish_reduction(s);
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    if (!trainable(u)) continue;
    bool& reduced = units_[static_cast<size_t>(u)].has_partial_sum;
    PARTITA_CHECK(reduced, "a unit was not reduced: close was not called for the last micro-batch");
    reduced = false;
    if (!leaves_at_once(u) || units_[static_cast<size_t>(u)].sent) continue;
    // Whoever reduced it did not know that it was the last time. Its slice is there, to be measured with the others'.
    send(u, compute_.record(), /*last=*/true);
    compute_.wait(slot(u).reduced);
  }
  const auto slice = [this](int unit) { return units_[static_cast<size_t>(unit)].slice; };
  const int units = static_cast<int>(units_.size());
  if (zero_.replica->size() > 1 && gradients_.reduction != Reduction::in_place) {
    communication_.wait(compute_.record());
    std::vector<Event> sums;
    for (int u = 0; u < units; ++u)
      if (trainable(u) && !leaves_at_once(u))
        sums.push_back(zero_.replica->all_reduce(slice(u), Reduce::sum, communication_));
    for (const Event& event : sums) compute_.wait(event);
  }
  // A table of two stages: each has the gradient of its own use.
  for (int u = 0; u < units; ++u) {
    if (!trainable(u) || !held_by_two_stages(u)) continue;
    compute_.wait(zero_.ends->all_reduce(slice(u), Reduce::sum, compute_));
    if (on_host(u)) slot(u).copied = offload_->copy(u, slice(u), compute_.record());
  }
  if (offload_) offload_->begin_sums();
}

void GradientStore::drop() {
  for (Slot& s : slots_) {
    s.complete = false;  // nobody asks for its norm
    finish_reduction(s);
  }
  for (UnitGradient& unit : units_) unit.acquired = unit.has_partial_sum = false;
  for (const Slot& s : slots_) compute_.wait(s.copied);
  if (offload_) offload_->begin_sums();
  sent_.clear();
  if (options_.norm_stream != nullptr) compute_.wait(options_.norm_stream->record());
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) release(u);
}

void GradientStore::release(int unit) {
  const auto u = static_cast<size_t>(unit);
  if (!options_.transient_slices || gradients_.slice[u] != SliceMemory::own) return;
  const at::Tensor slice = std::exchange(units_[u].slice, {});
  if (options_.poison && slice.defined()) poison(slice);
  if (slice.defined() && !slice.is_cpu())
    slice.record_stream(c10::impl::VirtualGuardImpl(slice.device().type()).getStream(slice.device()));
}

void GradientStore::sum_of_squares(at::Tensor out) const {
  if (zero_.replica->rank() != 0) return;
  if (options_.norm_stream != nullptr) compute_.wait(options_.norm_stream->record());
  for (size_t u = 0; u < units_.size(); ++u) {
    const UnitGradient& unit = units_[u];
    const int index = static_cast<int>(u);
    if (!unit.slice.defined() || unit.measured) continue;
    if (adds_on_host(index)) arrived(index).wait();
    squares_.measure(index, adds_on_host(index) ? gradient(index) : unit.slice, unit.counted);
  }
  squares_.add_to(out);
}

std::vector<at::Tensor> GradientStore::counted_slices() const {
  std::vector<at::Tensor> slices;
  if (zero_.replica->rank() != 0) return slices;
  for (int u = 0; u < static_cast<int>(units_.size()); ++u) {
    arrived(u).wait();
    for (const FlatRun& run : units_[static_cast<size_t>(u)].counted)
      slices.push_back(gradient(u).narrow(0, run.begin, run.count));
  }
  return slices;
}

int64_t GradientStore::bytes() const {
  int64_t total = 0;
  for (const Slot& s : slots_) total += bytes_of(s.buffer) + bytes_of(s.receive_buffer);
  for (size_t u = 0; u < units_.size(); ++u)
    if (gradients_.slice[u] == SliceMemory::own)
      total += units_[u].slice.defined() ? bytes_of(units_[u].slice)
                                         : gradients_.slice_count[u] * size_of(gradients_.slice_dtype[u]);
  return total;
}

}  // namespace partita::internal
