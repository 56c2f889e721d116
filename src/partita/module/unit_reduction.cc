#include "partita/module/unit_reduction.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {

// The units of all parts, one after the other, and which of them share a gradient buffer.
UnitReduction::UnitReduction(const ModuleParts& parts, const Options& options, Communicator& data)
    : options_(options), data_(data) {
  std::vector<int> counts, buffers;
  int next_buffer = 0;
  for (const auto& part : parts) {
    for (size_t u = 0; u < part->units().size(); ++u) {
      units_.push_back({part.get(), static_cast<int>(u)});
      counts.push_back(static_cast<int>(part->units()[u].layout.parameters.size()));
      buffers.push_back(next_buffer + part->gradient_slots().slot_of_unit[u]);
      for (int i = 0; i < counts.back(); ++i) placement_.emplace_back(static_cast<int>(units_.size()) - 1, i);
    }
    next_buffer += static_cast<int>(part->gradient_slots().slot_count.size());
  }
  for (const auto& part : parts)
    for (const NamedParameter& p : part->parameters()) {
      unit_of_[p.tensor.unsafeGetTensorImpl()] = placement_[parameters_.size()].first;
      parameters_.push_back(p.tensor);
    }
  early_.resize(units_.size());
  reduced_.assign(units_.size(), false);
  order_ = std::make_unique<BackwardOrder>(counts, std::move(buffers));
}

void UnitReduction::expect(const std::vector<at::Tensor>& parameters) {
  expected_.assign(units_.size(), false);
  for (const at::Tensor& p : parameters)
    if (const auto found = unit_of_.find(p.unsafeGetTensorImpl()); found != unit_of_.end())
      expected_[static_cast<size_t>(found->second)] = true;
}

void UnitReduction::begin_pass() {
  if (in_pass_)
    fail(
        "ZeroOptimizer: a backward pass began before the last one had ended: call zero_grad after one that failed; "
        "passes within passes are not supported");
  if (passes_ == options_.micro_batches)
    fail(
        "ZeroOptimizer: a backward pass too many, expected {} between two steps: set "
        "ZeroOptimizerOptions::micro_batches to the number of backward passes of a step",
        options_.micro_batches);
  in_pass_ = true;
  for (auto& gradients : early_) gradients.clear();
  order_->begin(units_of_pass());
  expected_.clear();
}

// With stages 0 and 1, whose units are reduced in the last pass of a step, all of them.
std::vector<bool> UnitReduction::units_of_pass() const {
  std::vector<bool> units(units_.size(), true);
  if (expected_.empty() || !options_.each_pass) return units;
  const bool last = passes_ + 1 == options_.micro_batches;
  for (size_t u = 0; u < units.size(); ++u) units[u] = expected_[u] || (last && !reduced_[u]);
  return units;
}

void UnitReduction::arrived(size_t parameter, const at::Tensor& gradient) {
  const auto [unit, index] = placement_[parameter];
  const Place place = units_[static_cast<size_t>(unit)];
  if (gradient.layout() != at::kStrided)
    fail(
        "ZeroOptimizer: a gradient of parameter {} is sparse, which is not supported: create the embedding without "
        "sparse",
        place.part->units()[static_cast<size_t>(place.unit)].layout.parameters[static_cast<size_t>(index)].name);
  order_->arrived(unit, index);
  if (order_->writable(unit))
    place.part->write(place.unit, index, gradient);
  else
    early_[static_cast<size_t>(unit)].emplace_back(index, gradient);
  if (!options_.overlap) return;
  for (int u = order_->complete(); u >= 0; u = order_->complete()) reduce(u, passes_ + 1 == options_.micro_batches);
  data_.progress();
}

void UnitReduction::end_pass() {
  in_pass_ = false;
  ++passes_;
  reduce_rest(passes_ == options_.micro_batches);
}

// The next unit of the order.
void UnitReduction::reduce(int unit, bool last) {
  const Place place = units_[static_cast<size_t>(unit)];
  (void)place.part->gradients().open(place.unit);  // parameters without gradient have zero
  for (const auto& [index, gradient] : std::exchange(early_[static_cast<size_t>(unit)], {}))
    place.part->write(place.unit, index, gradient);
  place.part->gradients().close(place.unit, last);
  order_->reduced();
  reduced_[static_cast<size_t>(unit)] = true;
}

void UnitReduction::reduce_rest(bool last) {
  for (int u = order_->next(); u >= 0; u = order_->next()) reduce(u, last);
}

// From rank 0, so that all ranks reduce in the same order.
void UnitReduction::learn_order(const Mesh& mesh, Stream& compute) {
  std::vector<int> seen = order_->seen();
  at::Tensor sequence = at::zeros({std::ssize(seen)}, at::kInt);
  std::ranges::copy(seen, sequence.data_ptr<int32_t>());
  sequence = sequence.to(mesh.device());
  for (Communicator* group : {&data_, &mesh.tensor()}) compute.wait(group->broadcast(sequence, 0, compute));
  sequence = sequence.to(at::kCPU);
  std::copy_n(sequence.data_ptr<int32_t>(), seen.size(), seen.begin());
  order_->set_sequence(std::move(seen));
  knows_order_ = true;
}

void UnitReduction::finish(const Mesh& mesh, Stream& compute) {
  if (!knows_order_) learn_order(mesh, compute);
  if (options_.each_pass || passes_ < options_.micro_batches) {
    // What no pass has reduced; or all, because the last pass did not know that it was the last.
    std::vector<bool> rest(units_.size(), true);
    for (size_t u = 0; u < rest.size() && options_.each_pass; ++u) rest[u] = !reduced_[u];
    order_->begin(std::move(rest));
    reduce_rest(true);
  }
  reduced_.assign(units_.size(), false);
  expected_.clear();
  passes_ = 0;
}

bool UnitReduction::drop() {
  expected_.clear();
  for (auto& gradients : early_) gradients.clear();
  if (passes_ == 0 && !in_pass_) return false;
  reduced_.assign(units_.size(), false);
  passes_ = 0;
  in_pass_ = false;
  return true;
}

}  // namespace partita::internal
