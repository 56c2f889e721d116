#include "partita/module/zero_optimizer.h"

#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/device_stream.h"
#include "partita/device/scalar_type.h"
#include "partita/engine/sharded_parameters.h"
#include "partita/module/backward_order.h"
#include "partita/module/gradient_hooks.h"
#include "partita/module/parameter_units.h"
#include "partita/ops/step_memory.h"
#include "partita/shard/use_plan.h"
#include "partita/shard/zero.h"

namespace partita {
using namespace internal;
namespace {

// Element `begin` to `begin + count` of a box, as they are in a tensor of the whole parameter.
at::Tensor elements(const at::Tensor& parameter, const Box& box) {
  const Box whole = whole_box(parameter.sizes());
  return parameter.reshape({whole.rows, whole.columns})
      .narrow(0, box.row, box.rows)
      .narrow(1, box.column, box.columns)
      .reshape({-1});
}

bool is_supported(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf; }

const ZeroOptimizerOptions& valid(const ZeroOptimizerOptions& options) {
  if (options.stage < 0 || options.stage > 2) fail("ZeroOptimizer: stage {}, expected 0, 1 or 2", options.stage);
  if (options.micro_batches < 1) fail("ZeroOptimizer: micro_batches {}, expected at least 1", options.micro_batches);
  if (options.unit_elements < 1) fail("ZeroOptimizer: unit_elements {}, expected at least 1", options.unit_elements);
  if (!(options.max_norm >= 0)) fail("ZeroOptimizer: max_norm {}, expected at least 0", options.max_norm);
  return options;
}

// The trained parameters of a group, each once.
std::vector<NamedParameter> trained(const std::vector<NamedParameter>& given, std::set<const void*>& seen) {
  std::vector<NamedParameter> all;
  for (const NamedParameter& p : given) {
    if (!p.tensor.requires_grad() || !seen.insert(p.tensor.unsafeGetTensorImpl()).second) continue;
    if (!p.tensor.is_leaf()) fail("ZeroOptimizer: {} is not a parameter, but the result of an operation", p.name);
    if (!is_supported(p.tensor.scalar_type()))
      fail("ZeroOptimizer: parameter {} is {}, expected fp32, bf16 or fp16", p.name,
           at::toString(p.tensor.scalar_type()));
    if (GradientHooks::is_taken(p.tensor))
      fail("ZeroOptimizer: parameter {} belongs to another ZeroOptimizer already", p.name);
    all.push_back(p);
  }
  return all;
}

void check_memory_is_apart(const std::vector<ParameterGroup>& groups) {
  std::map<const char*, const NamedParameter*> by_address;
  for (const ParameterGroup& group : groups)
    for (const NamedParameter& p : group.parameters)
      if (p.tensor.numel() > 0) {
        const auto* address = static_cast<const char*>(p.tensor.const_data_ptr());
        const auto [next, added] = by_address.emplace(address, &p);
        if (!added) fail("ZeroOptimizer: parameters {} and {} share memory", next->second->name, p.name);
      }
  const char* end = nullptr;
  const NamedParameter* before = nullptr;
  for (const auto& [address, p] : by_address) {
    if (address < end) fail("ZeroOptimizer: parameters {} and {} share memory", before->name, p->name);
    end = address + p->tensor.nbytes();
    before = p;
  }
}

// Parameters of one group and one dtype: what shard/ and engine/ store and update as one.
struct Part {
  size_t group = 0;
  std::vector<NamedParameter> parameters;  // as in the plan: unit by unit
  UnitPlan plan;
  UsePlan uses;
  SlotPlan gradient_slots;
  std::unique_ptr<ShardedParameters> store;
  std::unique_ptr<StepMemory> now;
  std::vector<uint32_t> versions;   // [parameter]: as the last step left them
  std::vector<const void*> memory;  // [parameter]: of its values
};

struct UnitPlace {
  size_t part;
  int unit;
};

}  // namespace

struct ZeroOptimizer::Implementation {
  Implementation(std::vector<ParameterGroup> groups, const Mesh& mesh, const ZeroOptimizerOptions& options);

  void take_trained(std::vector<NamedParameter>& frozen);
  void number_units();
  void add_part(size_t group, at::ScalarType, const std::vector<NamedParameter>&);
  [[nodiscard]] at::Tensor of_rank_0(const at::Tensor& parameter);
  void begin_with_rank_0s_weights(Part&);
  void point_parameters_at(Part&);
  void check_equal_on_ranks();

  void arrived(size_t parameter, const at::Tensor& gradient);
  void write(const UnitPlace&, int parameter, const at::Tensor& gradient);
  void reduce_complete();
  void reduce(int unit, bool last);
  void pass_ended();
  void begin_pass();

  ZeroStep step();
  void check_parameters();
  void reduce_what_is_not();
  void take_changes(Part&);
  void settle();
  void drop();

  ZeroOptimizerOptions options_;
  std::vector<ParameterGroup> groups_;
  Communicator& data_;
  Zero zero_;
  at::Device device_;
  std::unique_ptr<Stream> compute_, communication_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<UnitPlace> units_;                // of all parts
  std::vector<std::pair<int, int>> placement_;  // [parameter, of all parts]: unit of units_, and index there
  std::vector<std::vector<std::pair<int, at::Tensor>>> early_;  // [unit]: gradients whose buffer another unit still has
  std::unique_ptr<BackwardOrder> order_;
  int passes_ = 0;            // since the last step
  bool in_pass_ = false;      // between the first gradient of a pass and its end
  bool knows_order_ = false;  // the order is that of a pass, not the first guess
  int64_t steps_ = 0, updates_ = 0;
  at::Tensor squares_;                    // [1] double
  std::unique_ptr<GradientHooks> hooks_;  // first to go: the others are called by it
};

ZeroOptimizer::Implementation::Implementation(std::vector<ParameterGroup> groups, const Mesh& mesh,
                                              const ZeroOptimizerOptions& options)
    : options_(options),
      groups_(std::move(groups)),
      data_(mesh.data()),
      zero_(make_zero(valid(options).stage, mesh)),
      device_(mesh.device()),
      compute_(make_stream(device_, StreamUse::compute)),
      communication_(make_stream(device_, options.overlap ? StreamUse::concurrent : StreamUse::compute)),
      squares_(at::zeros({1}, at::TensorOptions(at::kDouble).device(device_))) {
  if (data_.size() != mesh.layout().ranks())
    fail("ZeroOptimizer: a mesh with tensor, context or pipeline parallelism, expected data parallelism alone");
  std::vector<NamedParameter> frozen;
  take_trained(frozen);
  check_memory_is_apart(groups_);
  check_equal_on_ranks();
  for (const NamedParameter& p : frozen) p.tensor.detach().copy_(of_rank_0(p.tensor));
  for (size_t g = 0; g < groups_.size(); ++g)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      std::vector<NamedParameter> of_type;
      for (const NamedParameter& p : groups_[g].parameters)
        if (p.tensor.scalar_type() == type) of_type.push_back(p);
      if (!of_type.empty()) add_part(g, type, of_type);
    }
  number_units();
  std::vector<at::Tensor> tensors;
  for (const auto& part : parts_)
    for (const NamedParameter& p : part->parameters) tensors.push_back(p.tensor);
  hooks_ = std::make_unique<GradientHooks>(
      std::move(tensors),
      GradientHooks::Calls{.arrived = [this](size_t p, const at::Tensor& gradient) { arrived(p, gradient); },
                           .began = [this] { begin_pass(); },
                           .ended = [this] { pass_ended(); }});
}

// Leaves in the groups what is trained, each parameter once.
void ZeroOptimizer::Implementation::take_trained(std::vector<NamedParameter>& frozen) {
  std::set<const void*> seen;
  size_t count = 0;
  for (ParameterGroup& group : groups_) {
    for (const NamedParameter& p : group.parameters) {
      if (!p.tensor.defined()) fail("ZeroOptimizer: parameter {} is undefined", p.name);
      if (p.tensor.device() != device_)
        fail("ZeroOptimizer: parameter {} is on {}, the mesh is on {}: move the model to the mesh's device first",
             p.name, p.tensor.device().str(), device_.str());
      if (!p.tensor.requires_grad()) frozen.push_back(p);
    }
    group.parameters = trained(group.parameters, seen);
    count += group.parameters.size();
  }
  if (count == 0) fail("ZeroOptimizer: no parameter requires a gradient");
}

// The units of all parts, one after the other, and which of them share a gradient buffer.
void ZeroOptimizer::Implementation::number_units() {
  std::vector<int> counts, buffers;
  int next_buffer = 0;
  for (size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = *parts_[p];
    for (size_t u = 0; u < part.plan.units.size(); ++u) {
      units_.push_back({p, static_cast<int>(u)});
      counts.push_back(static_cast<int>(part.plan.units[u].layout.parameters.size()));
      buffers.push_back(next_buffer + part.gradient_slots.slot_of_unit[u]);
      for (int i = 0; i < counts.back(); ++i) placement_.emplace_back(static_cast<int>(units_.size()) - 1, i);
    }
    next_buffer += static_cast<int>(part.gradient_slots.slot_count.size());
  }
  early_.resize(units_.size());
  order_ = std::make_unique<BackwardOrder>(counts, std::move(buffers));
}

// A rank with another model would wait for collectives that the others do not make.
void ZeroOptimizer::Implementation::check_equal_on_ranks() {
  std::string all;
  for (const ParameterGroup& group : groups_)
    for (const NamedParameter& p : group.parameters)
      all += fmt::format("{} {} {}\n", p.name, at::toString(p.tensor.scalar_type()), fmt::join(p.tensor.sizes(), " "));
  const std::vector<std::string> of_ranks = gather_strings(data_, all);
  for (size_t r = 0; r < of_ranks.size(); ++r)
    if (of_ranks[r] != of_ranks[0])
      fail("ZeroOptimizer: the parameters of rank {} are not those of rank 0: all ranks need the same model", r);
}

void ZeroOptimizer::Implementation::add_part(size_t group, at::ScalarType type,
                                             const std::vector<NamedParameter>& parameters) {
  auto part = std::make_unique<Part>();
  part->group = group;
  const DType weight = dtype_of(parameters.front().tensor);
  const DType states = options_.optimizer_dtype;
  if (states != DType::fp32 && states != weight)
    fail("ZeroOptimizer: optimizer_dtype {} with parameters of {}: expected fp32 or {}", name_of(states),
         at::toString(type), name_of(weight));
  std::vector<ParameterSpec> specs;
  std::map<std::string, NamedParameter> by_name;
  for (const NamedParameter& p : parameters) {
    if (!by_name.emplace(p.name, p).second) fail("ZeroOptimizer: two parameters are called {}", p.name);
    specs.push_back({.name = p.name, .shape = p.tensor.sizes().vec(), .decay = true});
  }
  // What several passes add, and what is summed over ranks, is fp32.
  const bool adds = options_.micro_batches > 1 && options_.stage < 2;
  part->plan = plan_parameter_units(specs,
                                    {.ranks = zero_.sharding.ranks,
                                     .weight = weight,
                                     .matrix_gradient = adds ? DType::fp32 : weight,
                                     .matrix_gradient_sum = DType::fp32},
                                    options_.unit_elements);
  std::vector<BlockUse> uses;
  for (int b = 0; b < static_cast<int>(part->plan.blocks.size()); ++b) uses.push_back({b, Pass::forward});
  part->uses = plan_uses(part->plan, zero_.sharding, std::move(uses));
  part->gradient_slots = plan_gradients(part->plan, zero_.sharding, options_.micro_batches, /*offload=*/false).slots;
  for (const Unit& unit : part->plan.units)
    for (const ParameterSpec& p : unit.layout.parameters) part->parameters.push_back(by_name.at(p.name));
  part->store =
      std::make_unique<ShardedParameters>(part->plan, zero_,
                                          ParameterOptions{.compute = weight,
                                                           .states = states,
                                                           .micro_batches = options_.micro_batches,
                                                           .optimizer = groups_[group].optimizer,
                                                           .device = device_},
                                          ShardedParameters::GradientMemory{}, nullptr, *compute_, *communication_);
  part->now = std::make_unique<StepMemory>(device_);
  begin_with_rank_0s_weights(*part);
  point_parameters_at(*part);
  parts_.push_back(std::move(part));
}

at::Tensor ZeroOptimizer::Implementation::of_rank_0(const at::Tensor& parameter) {
  const at::Tensor copy = parameter.detach().clone(at::MemoryFormat::Contiguous);
  if (copy.numel() > 0) compute_->wait(data_.broadcast(copy, 0, *compute_));
  return copy;
}

void ZeroOptimizer::Implementation::begin_with_rank_0s_weights(Part& part) {
  std::map<std::string, at::Tensor> values;
  for (const NamedParameter& p : part.parameters) values.emplace(p.name, of_rank_0(p.tensor));
  part.store->set([&](const ParameterSpec& spec, const Box& box, const at::Tensor& out) {
    out.copy_(elements(values.at(spec.name), box));
  });
}

// The parameters become views of the gathered weights, so that an update is seen through them.
void ZeroOptimizer::Implementation::point_parameters_at(Part& part) {
  part.store->weights().begin(part.uses);
  size_t next = 0;
  for (int b = 0; b < static_cast<int>(part.plan.blocks.size()); ++b) {
    for (const at::Tensor& view : part.store->weights().use(b, Pass::forward)) {
      const at::Tensor& parameter = part.parameters[next++].tensor;
      parameter.set_data(view);
      part.versions.push_back(static_cast<uint32_t>(parameter._version()));
      part.memory.push_back(parameter.const_data_ptr());
    }
    part.store->weights().release();
  }
}

void ZeroOptimizer::Implementation::begin_pass() {
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
  order_->begin();
}

void ZeroOptimizer::Implementation::arrived(size_t parameter, const at::Tensor& gradient) {
  const auto [unit, index] = placement_[parameter];
  const UnitPlace& place = units_[static_cast<size_t>(unit)];
  const std::string& name = parts_[place.part]
                                ->plan.units[static_cast<size_t>(place.unit)]
                                .layout.parameters[static_cast<size_t>(index)]
                                .name;
  if (gradient.layout() != at::kStrided)
    fail("ZeroOptimizer: the gradient of {} is sparse, which is not supported: create its embedding without sparse",
         name);
  try {
    order_->arrived(unit, index);
  } catch (const Error& error) {
    fail("ZeroOptimizer: parameter {}: {}", name, error.what());
  }
  if (order_->writable(unit))
    write(place, index, gradient);
  else
    early_[static_cast<size_t>(unit)].emplace_back(index, gradient);
  if (!options_.overlap) return;
  reduce_complete();
  data_.progress();
}

void ZeroOptimizer::Implementation::write(const UnitPlace& place, int parameter, const at::Tensor& gradient) {
  const Target target = parts_[place.part]->store->gradients().open(place.unit)->target(parameter);
  if (target.accumulate)
    target.gradient.add_(gradient);
  else
    target.gradient.copy_(gradient);
}

void ZeroOptimizer::Implementation::reduce(int unit, bool last) {
  const UnitPlace& place = units_[static_cast<size_t>(unit)];
  GradientStore& gradients = parts_[place.part]->store->gradients();
  (void)gradients.open(place.unit);  // parameters without gradient have zero
  for (const auto& [index, gradient] : std::exchange(early_[static_cast<size_t>(unit)], {}))
    write(place, index, gradient);
  gradients.close(place.unit, last);
}

void ZeroOptimizer::Implementation::reduce_complete() {
  for (int u = order_->complete(); u >= 0; u = order_->complete()) {
    reduce(u, passes_ + 1 == options_.micro_batches);
    order_->reduced();
  }
}

void ZeroOptimizer::Implementation::pass_ended() {
  in_pass_ = false;
  for (int u = order_->next(); u >= 0; u = order_->next()) {
    reduce(u, passes_ + 1 == options_.micro_batches);
    order_->reduced();
  }
  ++passes_;
}

void ZeroOptimizer::Implementation::check_parameters() {
  for (const auto& part : parts_)
    for (size_t p = 0; p < part->parameters.size(); ++p) {
      const NamedParameter& parameter = part->parameters[p];
      if (parameter.tensor.grad().defined())
        fail(
            "ZeroOptimizer: parameter {} has a gradient that did not come from backward: ZeroOptimizer takes, reduces "
            "and clips gradients itself, nothing else may",
            parameter.name);
      if (parameter.tensor.const_data_ptr() != part->memory[p])
        fail(
            "ZeroOptimizer: the memory of parameter {} was exchanged, by to(), set_data or load: create the optimizer "
            "after that, and copy values in place",
            parameter.name);
    }
}

// Of a step with fewer passes than micro_batches: the last one did not know that it was the last.
void ZeroOptimizer::Implementation::reduce_what_is_not() {
  if (passes_ == options_.micro_batches || zero_.sharding.gradients) return;
  order_->begin();
  for (int u = order_->next(); u >= 0; u = order_->next()) {
    reduce(u, true);
    order_->reduced();
  }
}

// Values that the user has written since the last step, into master weights of another dtype.
void ZeroOptimizer::Implementation::take_changes(Part& part) {
  std::map<std::string, at::Tensor> values;
  for (size_t p = 0; p < part.parameters.size(); ++p)
    if (static_cast<uint32_t>(part.parameters[p].tensor._version()) != part.versions[p])
      values.emplace(part.parameters[p].name, part.parameters[p].tensor.detach());
  if (values.empty()) return;
  for (const OwnedBox& owned : part.store->owned_boxes())
    if (const auto found = values.find(owned.parameter->name); found != values.end())
      owned.values[0].copy_(elements(found->second, owned.box));
}

// Waits for the updated weights of all ranks.
void ZeroOptimizer::Implementation::settle() {
  for (const auto& part : parts_) {
    part->store->weights().begin(part->uses);
    for (int b = 0; b < static_cast<int>(part->plan.blocks.size()); ++b) {
      (void)part->store->weights().use(b, Pass::forward);
      part->store->weights().release();
    }
    for (size_t p = 0; p < part->parameters.size(); ++p)
      part->versions[p] = static_cast<uint32_t>(part->parameters[p].tensor._version());
  }
}

ZeroStep ZeroOptimizer::Implementation::step() {
  if (passes_ == 0) fail("ZeroOptimizer: step without a backward pass since the last one");
  check_parameters();
  if (!knows_order_) {
    std::vector<int> seen = order_->seen();
    at::Tensor sequence = at::zeros({std::ssize(seen)}, at::kInt);
    std::ranges::copy(seen, sequence.data_ptr<int32_t>());
    sequence = sequence.to(device_);
    compute_->wait(data_.broadcast(sequence, 0, *compute_));
    sequence = sequence.to(at::kCPU);
    std::copy_n(sequence.data_ptr<int32_t>(), seen.size(), seen.begin());
    reduce_what_is_not();
    order_->set_sequence(std::move(seen));
    knows_order_ = true;
  } else {
    reduce_what_is_not();
  }
  passes_ = 0;
  squares_.zero_();
  for (const auto& part : parts_) {
    take_changes(*part);
    part->store->gradients().finish();
    part->store->gradients().sum_of_squares(squares_);
  }
  compute_->wait(data_.all_reduce(squares_, Reduce::sum, *compute_));
  const double ranks = data_.size();
  ZeroStep result{.grad_norm = std::sqrt(squares_.to(at::kCPU).data_ptr<double>()[0]) / ranks};
  result.skipped = !std::isfinite(result.grad_norm);
  const double clip = options_.max_norm > 0 ? std::min(1.0, options_.max_norm / (result.grad_norm + 1e-6)) : 1.0;
  for (const auto& part : parts_) {
    StepScalars& now = part->now->host;
    now.step = steps_;
    now.update = updates_;
    now.learning_rate = static_cast<float>(groups_[part->group].learning_rate);
    now.gradient_scale = static_cast<float>(clip / ranks);
    now.skip = result.skipped ? 1 : 0;
    part->now->publish();
    part->store->update(*part->now);
  }
  ++steps_;
  if (!result.skipped) ++updates_;
  settle();
  return result;
}

void ZeroOptimizer::Implementation::drop() {
  for (const auto& part : parts_)
    for (const NamedParameter& p : part->parameters) p.tensor.mutable_grad().reset();
  if (passes_ == 0 && !in_pass_) return;
  for (const auto& part : parts_) part->store->gradients().drop();
  passes_ = 0;
  in_pass_ = false;
}

ZeroOptimizer::ZeroOptimizer(std::vector<ParameterGroup> groups, const Mesh& mesh, const ZeroOptimizerOptions& options)
    : implementation_(std::make_unique<Implementation>(std::move(groups), mesh, options)) {}

ZeroOptimizer::ZeroOptimizer(std::vector<NamedParameter> parameters, const Mesh& mesh,
                             const ZeroOptimizerOptions& options)
    : ZeroOptimizer(std::vector<ParameterGroup>{{std::move(parameters), options.optimizer, options.learning_rate}},
                    mesh, options) {}

ZeroOptimizer::~ZeroOptimizer() = default;

ZeroStep ZeroOptimizer::step() { return implementation_->step(); }

ZeroStep ZeroOptimizer::step(const std::function<void()>& closure) {
  closure();
  return implementation_->step();
}

void ZeroOptimizer::zero_grad() { implementation_->drop(); }

void ZeroOptimizer::set_learning_rate(double rate) {
  for (ParameterGroup& group : implementation_->groups_) group.learning_rate = rate;
}

void ZeroOptimizer::set_learning_rate(size_t group, double rate) {
  implementation_->groups_.at(group).learning_rate = rate;
}

double ZeroOptimizer::learning_rate(size_t group) const { return implementation_->groups_.at(group).learning_rate; }

ZeroOptimizer::Memory ZeroOptimizer::memory() const {
  Memory total;
  for (const auto& part : implementation_->parts_) {
    const ParameterMemory m = part->store->memory();
    total.weights += m.weights;
    total.gradients += m.gradients;
    total.master += m.master;
    total.optimizer += m.optimizer;
  }
  return total;
}

}  // namespace partita
