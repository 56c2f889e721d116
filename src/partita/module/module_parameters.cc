#include "partita/module/module_parameters.h"

#include <ATen/ops/where.h>

#include <map>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/scalar_type.h"
#include "partita/module/operand_key.h"
#include "partita/module/parameter_units.h"
#include "partita/module/tensor_placement.h"
#include "partita/nn/split.h"

namespace partita::internal {

namespace {

// With tensor parallelism, what no plan divides is held by all ranks of the group.
ParameterSpec spec_of(const NamedParameter& p, const Zero& zero) {
  ParameterSpec spec{.name = p.name, .shape = p.tensor.sizes().vec(), .decay = true, .stage_copy = p.copy};
  if (zero.tensor == nullptr) return spec;
  if (const TensorPlacement* placement = placement_of(p.tensor)) {
    if (placement->divided() && !has_operand_key(p.tensor))
      fail(
          "ZeroOptimizer: parameter {} was divided over tensor-parallel ranks and then moved: call parallelize after "
          "to(device, dtype)",
          p.name);
    spec = placement->spec;
    spec.name = p.name;
    spec.stage_copy = p.copy;
    return spec;
  }
  spec.local = local_boxes(spec, zero.tensor->rank(), zero.tensor->size());
  return spec;
}

// Of each rank of the tensor-parallel group, whose gradients are summed.
double share_of_gradient(const at::Tensor& parameter, const Zero& zero) {
  if (zero.tensor == nullptr) return 1;
  const TensorPlacement* placement = placement_of(parameter);
  return placement == nullptr || placement->whole_gradient() ? 1.0 / zero.tensor->size() : 1;
}

}  // namespace

ModuleParameters::ModuleParameters(const std::vector<NamedParameter>& parameters, const Zero& zero,
                                   const Options& options, const Streams& streams)
    : states_(options.trained ? options.states : dtype_of(parameters.front().tensor)), now_(options.device) {
  const DType weight = dtype_of(parameters.front().tensor);
  if (options.trained && options.states != DType::fp32 && options.states != weight)
    fail("ZeroOptimizer: optimizer_dtype {} with parameters of {}: expected fp32 or {}", name_of(options.states),
         name_of(weight), name_of(weight));
  std::vector<ParameterSpec> specs;
  std::map<std::string, at::Tensor> by_name;
  for (const NamedParameter& p : parameters) {
    by_name.emplace(p.name, p.tensor);
    specs.push_back(spec_of(p, zero));
    specs.back().trainable = options.trained;
  }
  // What several passes add, and slices, are fp32. With stage 0 and one pass the sum over ranks, which is computed in
  // fp32, is rounded once to the parameters' dtype: half of the bytes that are sent.
  const bool adds = options.micro_batches > 1 && !zero.sharding.gradients;
  plan_ = plan_parameter_units(specs,
                               {.ranks = zero.sharding.ranks,
                                .weight = weight,
                                .matrix_gradient = adds ? DType::fp32 : weight,
                                .matrix_gradient_sum = DType::fp32},
                               options.unit_elements);
  place_states(plan_, options.away, /*one_reduction=*/options.micro_batches == 1);
  std::vector<BlockUse> uses;
  for (int b = 0; b < static_cast<int>(plan_.blocks.size()); ++b) uses.push_back({b, Pass::forward});
  uses_ = plan_uses(plan_, zero.sharding, std::move(uses));
  gradient_slots_ = plan_gradients(plan_, zero.sharding, options.micro_batches).slots;
  for (const Unit& unit : plan_.units)
    for (const ParameterSpec& p : unit.layout.parameters) {
      parameters_.push_back({p.name, by_name.at(p.name)});
      shares_.push_back(share_of_gradient(parameters_.back().tensor, zero));
    }
  store_ = std::make_unique<ShardedParameters>(plan_, zero,
                                               ParameterOptions{.compute = weight,
                                                                .states = states_,
                                                                .micro_batches = options.micro_batches,
                                                                .optimizer = options.optimizer,
                                                                .training = options.trained,
                                                                .disk_folder = options.disk_folder,
                                                                .weights_on_demand = zero.sharding.weights,
                                                                .transient_slices = true,
                                                                .early_norms = options.early_norms,
                                                                .poison = options.poison,
                                                                .device = options.device},
                                               ShardedParameters::GradientMemory{}, options.copies, streams.compute,
                                               streams.communication, streams.update);
  if (zero.sharding.weights)
    on_demand_ = std::make_unique<WeightsOnDemand>(
        plan_, store_->weights(), options.device,
        [this](int unit, std::span<const at::Tensor> values) {
          std::map<std::string, at::Tensor> written;
          for (size_t i = 0; i < values.size(); ++i)
            written.emplace(parameters_[first_of_unit(unit) + i].name, values[i]);
          keep(written);
          store_->publish(unit);
        },
        *zero.shard, streams.compute);
}

void ModuleParameters::adopt(const Initial& initial) {
  versions_.resize(parameters_.size());
  memory_.resize(parameters_.size());
  std::vector<at::Tensor> on_demand;
  if (on_demand_)
    for (int u = 0; u < static_cast<int>(plan_.units.size()); ++u)
      for (size_t i = 0; i < plan_.units[static_cast<size_t>(u)].layout.parameters.size(); ++i)
        on_demand.push_back(on_demand_->parameter(u, static_cast<int>(i), parameters_[first_of_unit(u) + i].tensor));
  // Parameter by parameter, so that only one full copy exists at a time; with ZeRO-3 the module's own memory is freed
  // on the way. All ranks take part in every parameter, although each reads only its own slices.
  size_t next = 0;
  at::Tensor value;
  const auto proceed = [&] {
    value = initial(parameters_[next].tensor);
    if (on_demand_) set_data(next, on_demand[next]);
    ++next;
  };
  for (const OwnedBox& owned : store_->owned_boxes()) {
    while (next == 0 || parameters_[next - 1].name != owned.parameter->name) proceed();
    owned.values[0].copy_(held_elements(value, *owned.parameter, owned.box));
  }
  while (next < parameters_.size()) proceed();
  store_->publish();
  if (on_demand_) return;
  next = 0;
  use_weights([&](std::span<const at::Tensor> views) {
    for (const at::Tensor& view : views) {
      const at::Tensor& tensor = parameters_[next].tensor;
      const at::Tensor shaped = view.view(tensor.sizes());  // boxes are matrices
      const TensorPlacement* placement = placement_of(tensor);
      set_data(next++, placement != nullptr && placement->divided() ? with_operand_key(shaped) : shaped);
    }
  });
}

void ModuleParameters::set_data(size_t parameter, const at::Tensor& data) {
  const at::Tensor& tensor = parameters_[parameter].tensor;
  internal::set_data(tensor, data);
  versions_[parameter] = tensor._version();
  memory_[parameter] = tensor.storage().unsafeGetStorageImpl();
}

size_t ModuleParameters::first_of_unit(int unit) const {
  size_t first = 0;
  for (int u = 0; u < unit; ++u) first += plan_.units[static_cast<size_t>(u)].layout.parameters.size();
  return first;
}

ParameterMemory ModuleParameters::memory() const {
  ParameterMemory memory = store_->memory();
  if (on_demand_) memory.weights += on_demand_->bytes();
  return memory;
}

// The full weights of all units, in the order of parameters().
void ModuleParameters::use_weights(const std::function<void(std::span<const at::Tensor>)>& visit) {
  store_->weights().begin(uses_);
  for (int b = 0; b < static_cast<int>(plan_.blocks.size()); ++b) {
    visit(store_->weights().use(b, Pass::forward));
    store_->weights().release();
  }
}

void ModuleParameters::write(int unit, int parameter, const at::Tensor& gradient) {
  const Target target = gradients().open(unit)->target(parameter);
  const at::Tensor whole = target.gradient.view(gradient.sizes());
  const double share = shares_[first_of_unit(unit) + static_cast<size_t>(parameter)];
  if (target.accumulate)
    whole.add_(gradient, share);
  else
    whole.copy_(gradient);
  if (!target.accumulate && share != 1) whole.mul_(share);
}

void ModuleParameters::require_untouched() const {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const NamedParameter& parameter = parameters_[p];
    if (parameter.tensor.grad().defined())
      fail(
          "ZeroOptimizer: parameter {} has a gradient that did not come from backward: ZeroOptimizer takes, reduces "
          "and clips gradients itself, nothing else may",
          parameter.name);
    if (parameter.tensor.storage().unsafeGetStorageImpl() != memory_[p])
      fail(
          "ZeroOptimizer: the memory of parameter {} was exchanged, by to(), set_data or load: create the optimizer "
          "after that, and copy values in place",
          parameter.name);
  }
}

void ModuleParameters::collect_changes() {
  if (on_demand_) return on_demand_->evict_all();
  std::map<std::string, at::Tensor> changed;
  for (size_t p = 0; p < parameters_.size(); ++p)
    if (parameters_[p].tensor._version() != versions_[p])
      changed.emplace(parameters_[p].name, parameters_[p].tensor.detach());
  if (!changed.empty()) keep(changed);
}

// A master weight of another dtype that rounds to what is there stays: a write into a part changes no more than that.
void ModuleParameters::keep(const std::map<std::string, at::Tensor>& values) {
  for (const OwnedBox& owned : store_->owned_boxes()) {
    const auto found = values.find(owned.parameter->name);
    if (found == values.end()) continue;
    const at::Tensor& master = owned.values[0];
    const at::Tensor value = held_elements(found->second, *owned.parameter, owned.box).to(master.device());
    if (value.scalar_type() == master.scalar_type())
      master.copy_(value);
    else
      master.copy_(at::where(master.to(value.scalar_type()).eq(value), master, value.to(master.scalar_type())));
  }
}

void ModuleParameters::update(const StepScalars& now) {
  now_.host = now;
  now_.publish();
  store_->update(now_);
}

void ModuleParameters::gather_state(const StateRanks& ranks, StateDict& state) {
  collect_changes();
  internal::gather_state(*store_, states_, ranks, state);
}

std::vector<NamedParameter> ModuleParameters::whole_weights(const StateRanks& ranks) const {
  std::vector<NamedParameter> all;
  size_t next = 0;
  for (const Unit& unit : plan_.units)
    for (const ParameterSpec& p : unit.layout.parameters)
      all.push_back({p.name, gather_whole(parameters_[next++].tensor, p, ranks)});
  return all;
}

void ModuleParameters::take_state(const StateDict& state) {
  if (on_demand_) on_demand_->evict_all();
  internal::take_state(*store_, state);
  store_->publish();
}

void ModuleParameters::settle() {
  if (on_demand_) return on_demand_->end_step();
  use_weights([](std::span<const at::Tensor>) {});
  for (size_t p = 0; p < parameters_.size(); ++p) versions_[p] = parameters_[p].tensor._version();
}

ModuleParts make_parts(const std::vector<NamedParameter>& parameters, const Zero& zero,
                       const ModuleParameters::Options& options, const ModuleParameters::Streams& streams) {
  ModuleParts parts;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    std::vector<NamedParameter> of_type;
    for (const NamedParameter& p : parameters)
      if (p.tensor.scalar_type() == type) of_type.push_back(p);
    if (of_type.empty()) continue;
    const auto add = [&] { parts.push_back(std::make_unique<ModuleParameters>(of_type, zero, options, streams)); };
    // Part by part: a disk that is full on one rank must not leave others in the collectives of the next part.
    if (options.agreeing != nullptr)
      require_on_all(*options.agreeing, add);
    else
      add();
  }
  return parts;
}

}  // namespace partita::internal
