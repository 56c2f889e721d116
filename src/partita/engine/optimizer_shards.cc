#include "partita/engine/optimizer_shards.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "partita/ops/flat.h"
#include "partita/shard/flat_buffer.h"

namespace partita::internal {
namespace {

// Vectors are updated first since the first layer reads them; the next forward then follows the update unit by unit.
std::vector<size_t> plan_update_order(const UnitPlan& plan) {
  std::vector<size_t> order;
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (plan.units[u].trainable) order.push_back(u);
  std::ranges::stable_partition(order, [&](size_t u) { return plan.units[u].pool == BufferPool::persistent; });
  return order;
}

}  // namespace

std::vector<at::Tensor> make_masters(const UnitPlan& plan, const ParameterOptions& options) {
  std::vector<at::Tensor> masters;
  for (const Unit& unit : plan.units)
    masters.push_back(options.has_master_on_device(unit)
                          ? flat_zeros(unit.layout.slice_count(), options.states, options.device)
                          : at::Tensor());
  return masters;
}

FillWeights from_host(ReadWeights read) {
  return [read = std::move(read)](const ParameterSpec& parameter, const Box& box, const at::Tensor& out) {
    constexpr int64_t kMostElements = 1 << 20;
    std::vector<float> values;
    int64_t begin = 0;
    for (const Box& part : cut_box(box, kMostElements)) {
      values.resize(static_cast<size_t>(part.count()));
      read(parameter, part, values);
      cast(out.narrow(0, begin, part.count()),
           at::from_blob(values.data(), {part.count()}, at::kFloat).to(out.device()));
      begin += part.count();
    }
  };
}

OptimizerShards::OptimizerShards(const UnitPlan& plan, const ParameterOptions& options,
                                 std::span<const at::Tensor> masters, const Collaborators& with)
    : plan_(plan),
      with_(with),
      optimizer_(make_optimizer(options.optimizer)),
      update_order_(plan_update_order(plan)),
      updated_(plan.units.size()),
      updated_early_(plan.units.size()) {
  const auto trained_on = [&](bool host) {
    return std::ranges::any_of(update_order_, [&](size_t u) { return on_host(u) == host; });
  };
  if (trained_on(true)) host_ = make_host_states(options);
  int parameters = 0;
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const Unit& unit = plan_.units[u];
    const int index = static_cast<int>(u);
    const bool trained = with.gradients != nullptr && unit.trainable;
    ShardView shard{.layout = &unit.layout,
                    .segments = slice_segments(unit.layout, with.shard.rank()),
                    .first_parameter = parameters,
                    .master = {},
                    .gradient = {},
                    .weight = {},
                    .states = {}};
    if (trained && on_host(u)) {
      shard.master = host_->working_master(index);
      shard.weight = host_->weight(index);
      shard.states = host_->working_states(index);
    } else {
      shard.weight = with.weights.slice(index);
      shard.master = masters[u].defined() ? masters[u] : shard.weight;
      if (trained) shard.states = optimizer_->make_states(unit.layout.slice_count(), options.states, options.device);
    }
    shards_.push_back(std::move(shard));
    parameters += static_cast<int>(unit.layout.parameters.size());
  }
  if (!optimizer_->needs_norms()) return;
  if (trained_on(false)) norms_ = at::zeros({parameters, 2}, at::TensorOptions(at::kDouble).device(options.device));
  if (trained_on(true)) host_norms_ = at::zeros({parameters, 2}, at::kDouble);
}

std::unique_ptr<HostStates> OptimizerShards::make_host_states(const ParameterOptions& options) const {
  std::vector<at::Tensor> weights;
  for (size_t u = 0; u < plan_.units.size(); ++u)
    weights.push_back(plan_.units[u].weights == StatesPlace::device ? at::Tensor()
                                                                    : with_.weights.slice(static_cast<int>(u)));
  return std::make_unique<HostStates>(plan_,
                                      HostStates::Options{.master = options.states,
                                                          .weight = options.compute,
                                                          .states = static_cast<int>(optimizer_->state_names().size()),
                                                          .device = options.device,
                                                          .folder = options.disk_folder,
                                                          .weights = std::move(weights),
                                                          .poison = options.poison},
                                      *with_.copies);
}

// States in a new file are zero without being written.
void OptimizerShards::set(const FillWeights& fill) {
  wait_held();
  for (const OwnedBox& owned : boxes()) {
    fill(*owned.parameter, owned.box, owned.values[0]);
    for (size_t s = 1; s < owned.values.size() && !states_are_zero_; ++s) owned.values[s].zero_();
  }
  states_are_zero_ = true;
  publish();
}

std::vector<OwnedBox> OptimizerShards::boxes() const {
  finish();
  std::vector<OwnedBox> all;
  for (size_t u = 0; u < shards_.size(); ++u) {
    const ShardView& shard = shards_[u];
    const at::Tensor kept = master(static_cast<int>(u));
    const std::vector<at::Tensor>& states = on_host(u) ? host_->states(static_cast<int>(u)) : shard.states;
    for (const Segment& s : shard.segments) {
      const ParameterSpec& parameter = shard.layout->parameters[static_cast<size_t>(s.parameter)];
      int64_t begin = s.in_slice;
      for (const Box& box : boxes_of_run(s.box, s.in_box, s.count)) {
        OwnedBox owned{.parameter = &parameter,
                       .box = box,
                       .primary = s.primary && parameter.stage_copy != ParameterSpec::Copy::second,
                       .values = {kept.narrow(0, begin, box.count())}};
        for (const at::Tensor& state : states) owned.values.push_back(state.narrow(0, begin, box.count()));
        all.push_back(std::move(owned));
        begin += box.count();
      }
    }
  }
  return all;
}

void OptimizerShards::publish() {
  std::vector<size_t> all(shards_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  publish(all);
}

void OptimizerShards::publish(int unit) {
  const auto u = static_cast<size_t>(unit);
  publish(std::span(&u, 1));
}

void OptimizerShards::publish(std::span<const size_t> units) {
  rewrite(units, Changes::compute_weights, [this](size_t u) {
    const ShardView& shard = shards_[u];
    if (shard.weight.defined() && !shard.weight.is_same(shard.master)) cast(shard.weight, shard.master);
  });
}

// A step that has failed may have left early updates behind.
void OptimizerShards::begin_gradients(const std::optional<StepScalars>& early) {
  early_ = early.has_value();
  states_are_zero_ &= !early_;
  updated_early_.assign(updated_early_.size(), std::nullopt);
  (void)with_.gradients->take_sent();
  if (early) host_now_ = *early;
}

void OptimizerShards::update_arrived() {
  if (!early_) return;
  for (const int unit : with_.gradients->take_sent()) {
    const auto u = static_cast<size_t>(unit);
    if (plan_.units[u].states != StatesPlace::host) continue;
    wait_held();
    shards_[u].gradient = with_.gradients->gradient(unit);
    updated_early_[u] = queue_on_host(
        u, Changes::all, [this](size_t index) { optimizer_->step(shards_[index], norms(index), &host_now_); },
        with_.gradients->arrived(unit));
  }
}

void OptimizerShards::update(const StepMemory& now) {
  wait_held();
  states_are_zero_ = false;
  // A skipped step writes nothing; on the host, the staging buffers still hold the weights of other units.
  std::vector<size_t> units = update_order_;
  if (now.host.skip != 0) std::erase_if(units, [this](size_t u) { return on_host(u); });
  if (!std::exchange(early_, false)) host_now_ = now.host;
  (void)with_.gradients->take_sent();
  for (const size_t u : update_order_)
    if (!updated_early_[u]) shards_[u].gradient = with_.gradients->gradient(static_cast<int>(u));
  if (optimizer_->needs_norms()) measure_norms(now.device());
  rewrite(units, Changes::all, [this, on_device = now.device()](size_t u) {
    optimizer_->step(shards_[u], norms(u), on_host(u) ? &host_now_ : on_device);
    if (on_host(u)) return;
    shards_[u].gradient.reset();
    with_.gradients->release(static_cast<int>(u));
  });
  for (const size_t u : update_order_) {
    if (!on_host(u)) continue;
    with_.gradients->arrived(static_cast<int>(u)).wait();  // of a skipped step, too: until then the slice is read
    with_.gradients->release(static_cast<int>(u));
  }
}

void OptimizerShards::measure_norms(const StepScalars* on_device) {
  for (const at::Tensor& norms : {norms_, host_norms_})
    if (norms.defined()) norms.zero_();
  std::vector<Event> by_host;
  for (const size_t u : update_order_) {
    if (!on_host(u)) {
      optimizer_->measure(shards_[u], norms_, on_device);
      continue;
    }
    with_.gradients->arrived(static_cast<int>(u)).wait();
    by_host.push_back(
        host_->visit(static_cast<int>(u), [this, u] { optimizer_->measure(shards_[u], host_norms_, &host_now_); }));
  }
  for (const Event& measured : by_host) measured.wait();
  for (Communicator* group : {&with_.shard, with_.tensor}) {
    if (group == nullptr) continue;
    if (norms_.defined()) with_.compute.wait(group->all_reduce(norms_, Reduce::sum, with_.compute));
    if (host_norms_.defined()) group->all_reduce(host_norms_, Reduce::sum, with_.compute).wait();
  }
}

void OptimizerShards::rewrite(std::span<const size_t> units, Changes changes, const std::function<void(size_t)>& work) {
  std::vector<int> by_host;
  if (overlaps()) with_.update.wait(with_.compute.record());
  for (const size_t u : units) {
    if (on_host(u)) {
      by_host.push_back(static_cast<int>(u));
      continue;
    }
    with_.update.run([&] { work(u); });
    updated_[u] = with_.update.record();
    with_.weights.publish(static_cast<int>(u), updated_[u]);
  }
  for (const int unit : by_host) with_.gradients->arrived(unit).wait();
  std::vector<Event> copied;
  for (const int unit : by_host) {
    const auto u = static_cast<size_t>(unit);
    std::optional<Event> early;
    if (changes == Changes::all) early = std::exchange(updated_early_[u], std::nullopt);
    copied.push_back(early ? *early : queue_on_host(u, changes, work, {}));
  }
  // Publish last: a gather makes this thread wait for the unit, while the host updates the next ones.
  for (size_t i = 0; i < by_host.size(); ++i) with_.weights.publish(by_host[i], copied[i]);
}

// Updates go in the order in which the next forward pass reads the units, which then follows them.
Event OptimizerShards::queue_on_host(size_t unit, Changes changes, const std::function<void(size_t)>& work,
                                     Event ready) {
  const int index = static_cast<int>(unit);
  const auto of_unit = [this, work, unit] {
    shards_[unit].weight = host_->weight(static_cast<int>(unit));
    work(unit);
  };
  if (changes == Changes::compute_weights)
    return host_->upload(index, with_.weights.slice(index), with_.compute.record(), of_unit);
  const auto position = std::ranges::find(update_order_, unit) - update_order_.begin();
  return host_->update(index, with_.weights.slice(index), with_.compute.record(), of_unit,
                       {.priority = static_cast<int>(position), .ready = std::move(ready)});
}

void OptimizerShards::finish() const {
  if (host_) host_->finish();
  if (overlaps()) with_.compute.wait(with_.update.record());
}

void OptimizerShards::finish(int unit) const {
  if (overlaps()) with_.compute.wait(updated_[static_cast<size_t>(unit)]);
}

OptimizerShards::Bytes OptimizerShards::bytes() const {
  Bytes total{.host = host_ ? host_->bytes() : 0, .disk = host_ ? host_->disk_bytes() : 0};
  for (size_t u = 0; u < shards_.size(); ++u) {
    const ShardView& shard = shards_[u];
    if (on_host(u)) continue;
    if (!shard.weight.is_same(shard.master)) total.master += static_cast<int64_t>(shard.master.nbytes());
    for (const at::Tensor& state : shard.states) total.optimizer += static_cast<int64_t>(state.nbytes());
  }
  return total;
}

}  // namespace partita::internal
