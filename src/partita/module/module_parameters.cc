#include "partita/module/module_parameters.h"

#include <map>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/scalar_type.h"
#include "partita/module/parameter_units.h"

namespace partita::internal {
namespace {

// The elements of a box, row by row, of a tensor of the whole parameter.
at::Tensor elements(const at::Tensor& parameter, const Box& box) {
  const Box whole = whole_box(parameter.sizes());
  return parameter.reshape({whole.rows, whole.columns})
      .narrow(0, box.row, box.rows)
      .narrow(1, box.column, box.columns)
      .reshape({-1});
}

}  // namespace

ModuleParameters::ModuleParameters(const std::vector<NamedParameter>& parameters, const Zero& zero,
                                   const Options& options, const std::function<at::Tensor(const at::Tensor&)>& initial,
                                   Stream& compute, Stream& communication)
    : now_(options.device) {
  const DType weight = dtype_of(parameters.front().tensor);
  if (options.states != DType::fp32 && options.states != weight)
    fail("ZeroOptimizer: optimizer_dtype {} with parameters of {}: expected fp32 or {}", name_of(options.states),
         name_of(weight), name_of(weight));
  std::vector<ParameterSpec> specs;
  std::map<std::string, at::Tensor> by_name, values;
  for (const NamedParameter& p : parameters) {
    if (!by_name.emplace(p.name, p.tensor).second) fail("ZeroOptimizer: two parameters are called {}", p.name);
    specs.push_back({.name = p.name, .shape = p.tensor.sizes().vec(), .decay = true});
    values.emplace(p.name, initial(p.tensor));
  }
  // What several passes add, and what is summed over ranks, is fp32.
  const bool adds = options.micro_batches > 1 && !zero.sharding.gradients;
  plan_ = plan_parameter_units(specs,
                               {.ranks = zero.sharding.ranks,
                                .weight = weight,
                                .matrix_gradient = adds ? DType::fp32 : weight,
                                .matrix_gradient_sum = DType::fp32},
                               options.unit_elements);
  std::vector<BlockUse> uses;
  for (int b = 0; b < static_cast<int>(plan_.blocks.size()); ++b) uses.push_back({b, Pass::forward});
  uses_ = plan_uses(plan_, zero.sharding, std::move(uses));
  gradient_slots_ = plan_gradients(plan_, zero.sharding, options.micro_batches, /*offload=*/false).slots;
  for (const Unit& unit : plan_.units)
    for (const ParameterSpec& p : unit.layout.parameters) parameters_.push_back({p.name, by_name.at(p.name)});
  store_ = std::make_unique<ShardedParameters>(plan_, zero,
                                               ParameterOptions{.compute = weight,
                                                                .states = options.states,
                                                                .micro_batches = options.micro_batches,
                                                                .optimizer = options.optimizer,
                                                                .device = options.device},
                                               ShardedParameters::GradientMemory{}, nullptr, compute, communication);
  store_->set([&](const ParameterSpec& spec, const Box& box, const at::Tensor& out) {
    out.copy_(elements(values.at(spec.name), box));
  });
  use_weights([&](std::span<const at::Tensor> views) {
    for (const at::Tensor& view : views) {
      const at::Tensor& parameter = parameters_[memory_.size()].tensor;
      parameter.set_data(view);
      versions_.push_back(parameter._version());
      memory_.push_back(parameter.const_data_ptr());
    }
  });
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
  if (target.accumulate)
    target.gradient.add_(gradient);
  else
    target.gradient.copy_(gradient);
}

void ModuleParameters::require_untouched() const {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const NamedParameter& parameter = parameters_[p];
    if (parameter.tensor.grad().defined())
      fail(
          "ZeroOptimizer: parameter {} has a gradient that did not come from backward: ZeroOptimizer takes, reduces "
          "and clips gradients itself, nothing else may",
          parameter.name);
    if (parameter.tensor.const_data_ptr() != memory_[p])
      fail(
          "ZeroOptimizer: the memory of parameter {} was exchanged, by to(), set_data or load: create the optimizer "
          "after that, and copy values in place",
          parameter.name);
  }
}

void ModuleParameters::take_changes() {
  std::map<std::string, at::Tensor> changed;
  for (size_t p = 0; p < parameters_.size(); ++p)
    if (parameters_[p].tensor._version() != versions_[p])
      changed.emplace(parameters_[p].name, parameters_[p].tensor.detach());
  if (changed.empty()) return;
  for (const OwnedBox& owned : store_->owned_boxes())
    if (const auto found = changed.find(owned.parameter->name); found != changed.end())
      owned.values[0].copy_(elements(found->second, owned.box));
}

void ModuleParameters::update(const StepScalars& now) {
  now_.host = now;
  now_.publish();
  store_->update(now_);
}

void ModuleParameters::settle() {
  use_weights([](std::span<const at::Tensor>) {});
  for (size_t p = 0; p < parameters_.size(); ++p) versions_[p] = parameters_[p].tensor._version();
}

}  // namespace partita::internal
