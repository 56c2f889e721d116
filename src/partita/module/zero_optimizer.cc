#include "partita/module/zero_optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/device/copies.h"
#include "partita/device/device_stream.h"
#include "partita/module/caller_stream.h"
#include "partita/module/gradient_hooks.h"
#include "partita/module/gradient_norm.h"
#include "partita/module/lazy_storage.h"
#include "partita/module/module_offload.h"
#include "partita/module/module_parameters.h"
#include "partita/module/optimizer_access.h"
#include "partita/module/trained_parameters.h"
#include "partita/module/unit_reduction.h"

namespace partita {
using namespace internal;
namespace {

// Keys of a StateDict other than those of parameters.
constexpr const char *kSteps = "zero_optimizer/steps", *kUpdates = "zero_optimizer/updates";

// Has no states: torch's optimizer keeps its own.
constexpr OptimizerOptions kNone{.kind = OptimizerKind::sgd, .momentum = 0, .weight_decay = 0};

const ZeroOptimizerOptions& valid(const ZeroOptimizerOptions& options) {
  if (options.stage < 0 || options.stage > 3) fail("ZeroOptimizer: stage {}, expected 0, 1, 2 or 3", options.stage);
  if (options.micro_batches < 1) fail("ZeroOptimizer: micro_batches {}, expected at least 1", options.micro_batches);
  if (options.unit_elements < 1) fail("ZeroOptimizer: unit_elements {}, expected at least 1", options.unit_elements);
  if (options.norm_type != 1 && options.norm_type != 2 && options.norm_type != std::numeric_limits<double>::infinity())
    fail("ZeroOptimizer: norm_type {}, expected 1, 2 or infinity", options.norm_type);
  if (!(options.max_norm >= 0)) fail("ZeroOptimizer: max_norm {}, expected at least 0", options.max_norm);
  require_possible(options.offload, static_cast<bool>(options.torch_optimizer));
  return options;
}

}  // namespace

struct ZeroOptimizer::Implementation {
  Implementation(std::vector<ParameterGroup> groups, const Mesh& mesh, const ZeroOptimizerOptions& options);

  [[nodiscard]] ModuleParameters::Options part_options() const {
    return {.unit_elements = options_.unit_elements, .device = device_};
  }
  [[nodiscard]] ModuleParameters::Streams streams() const { return {*compute_, *communication_, *update_}; }
  void add_parts(size_t group);
  void add_all_parts();
  void add_frozen(std::vector<NamedParameter>& frozen);
  [[nodiscard]] at::Tensor of_rank_0(const at::Tensor& parameter);
  void hook();
  void require_same_order();

  ZeroStep step();
  StateDict state_dict();
  void load_state_dict(const StateDict&);
  void drop();
  void finish_update() const {
    for (const auto& part : parts_) part->finish_update();
  }
  void finish() const {
    for (const auto& part : parts_) part->store().finish();
  }
  void require_own_rates() const {
    if (torch_) fail("ZeroOptimizer: set_learning_rate with an optimizer of torch: set the rate of that optimizer");
  }

  ZeroOptimizerOptions options_;
  std::vector<ParameterGroup> groups_;
  const Mesh& mesh_;
  Communicator& data_;
  Zero zero_;
  at::Device device_;
  std::unique_ptr<Stream> compute_, communication_, update_;
  CallerStream caller_;
  std::unique_ptr<Copies> copies_;  // null: everything is on the device
  ModuleParts parts_;
  ModuleParts frozen_;  // with stage 3; with others frozen parameters keep their memory
  std::vector<size_t> group_of_part_;
  std::unique_ptr<UnitReduction> reduction_;
  int64_t steps_ = 0, updates_ = 0;
  std::unique_ptr<TorchOptimizer> torch_;  // null: the parts update themselves
  std::unique_ptr<GradientHooks> hooks_;   // first to go: the others are called by it
};

ZeroOptimizer::Implementation::Implementation(std::vector<ParameterGroup> groups, const Mesh& mesh,
                                              const ZeroOptimizerOptions& options)
    : options_(options),
      groups_(std::move(groups)),
      mesh_(mesh),
      data_(mesh.data()),
      zero_(make_zero(valid(options).stage, mesh)),
      device_(mesh.device()),
      compute_(make_stream(device_, StreamUse::compute)),
      communication_(make_stream(device_, options.overlap ? StreamUse::concurrent : StreamUse::compute)),
      update_(make_stream(device_, options.overlap ? StreamUse::background : StreamUse::compute)),
      caller_(device_, *compute_) {
  if (mesh.context().size() > 1)
    fail("ZeroOptimizer: a mesh with context parallelism, expected data, tensor and pipeline parallelism");
  require_equal_on_ranks(
      groups_,
      fmt::format("stage {}, {} passes, units of {}, {}, {}, {} in host memory, {} on disk", options.stage,
                  options.micro_batches, options.unit_elements, name_of(options.optimizer_dtype),
                  options.torch_optimizer ? "an optimizer of torch" : "an optimizer of ours", options.offload.optimizer,
                  options.offload.disk),
      data_);
  const at::NoGradGuard none;
  std::vector<NamedParameter> whole_frozen = take_trained(groups_, device_);
  add_all_parts();
  if (zero_.sharding.weights) add_frozen(whole_frozen);
  if (options_.torch_optimizer) {
    std::vector<TorchOptimizer::Part> parts;
    for (size_t p = 0; p < parts_.size(); ++p)
      parts.push_back({&parts_[p]->store(), static_cast<int>(parts_[p]->units().size()), group_of_part_[p]});
    torch_ = std::make_unique<TorchOptimizer>(options_.torch_optimizer, std::move(parts), groups_.size());
  }
  // From here on the model is changed.
  for (const NamedParameter& frozen : whole_frozen) take_values(frozen.tensor, of_rank_0(frozen.tensor));
  for (const ModuleParts* parts : {&frozen_, &parts_})
    for (const auto& part : *parts) part->adopt([this](const at::Tensor& p) { return of_rank_0(p); });
  reduction_ = std::make_unique<UnitReduction>(
      parts_,
      UnitReduction::Options{
          .micro_batches = options_.micro_batches, .each_pass = zero_.sharding.gradients, .overlap = options_.overlap},
      data_);
  hook();
}

// Weights would be gathered one for another.
void ZeroOptimizer::Implementation::require_same_order() {
  if (!zero_.sharding.weights) return;
  uint64_t order = 0;
  for (const ModuleParts* parts : {&parts_, &frozen_})
    for (const auto& part : *parts) order = mix(order ^ part->order());
  const auto mine = static_cast<int64_t>(order >> 1);
  const at::Tensor largest = at::tensor({mine, -mine}, at::kLong);
  CpuStream stream;
  data_.all_reduce(largest, Reduce::max, stream).wait();
  if (largest[0].item<int64_t>() != mine || largest[1].item<int64_t>() != -mine)
    fail("ZeroOptimizer: ranks used the parameters in different orders, which stage 3 does not allow");
}

at::Tensor ZeroOptimizer::Implementation::of_rank_0(const at::Tensor& parameter) {
  const at::Tensor copy = copy_of_values(parameter, /*needed=*/data_.rank() == 0);
  if (copy.numel() > 0) compute_->wait(data_.broadcast(copy, 0, *compute_));
  return copy;
}

void ZeroOptimizer::Implementation::add_all_parts() {
  const Offload& offload = options_.offload;
  if (offload.optimizer > 0 || offload.disk > 0) copies_ = offload.copies ? offload.copies() : make_copies(device_);
  if (offload.disk > 0) require_writable(offload.disk_folder, mesh_.world());
  for (size_t g = 0; g < groups_.size(); ++g) add_parts(g);
}

void ZeroOptimizer::Implementation::add_parts(size_t group) {
  ModuleParameters::Options options = part_options();
  options.states = options_.optimizer_dtype;
  options.micro_batches = options_.micro_batches;
  options.early_norms = options_.norm_type == 2;
  options.optimizer = options_.torch_optimizer ? kNone : groups_[group].optimizer;
  options.away = {.host = options_.offload.optimizer, .disk = options_.offload.disk};
  options.disk_folder = options_.offload.disk_folder;
  options.copies = copies_.get();
  if (options_.offload.disk > 0) options.agreeing = &mesh_.world();  // a disk may be full on one rank
  options.poison = options_.poison;
  for (auto& part : make_parts(groups_[group].parameters, zero_, options, streams())) {
    parts_.push_back(std::move(part));
    group_of_part_.push_back(group);
  }
}

// With stage 3. Leaves those that stay whole.
void ZeroOptimizer::Implementation::add_frozen(std::vector<NamedParameter>& frozen) {
  ModuleParameters::Options options = part_options();
  options.trained = false;
  frozen_ = make_parts(take_dividable(frozen, groups_), zero_, options, streams());
}

void ZeroOptimizer::Implementation::hook() {
  hooks_ = std::make_unique<GradientHooks>(
      reduction_->parameters(),
      GradientHooks::Calls{
          .arrived = [this](size_t p,
                            const at::Tensor& gradient) { caller_.run([&] { reduction_->arrived(p, gradient); }); },
          .began =
              [this] {
                finish_update();
                reduction_->begin_pass();
              },
          .ended = [this] { caller_.run([this] { reduction_->end_pass(); }); }});
}

ZeroStep ZeroOptimizer::Implementation::step() {
  if (reduction_->passes() == 0) fail("ZeroOptimizer: step without a backward pass since the last one");
  const at::NoGradGuard none;
  require_same_order();
  for (const auto& part : parts_) part->require_untouched();
  reduction_->finish(mesh_, *compute_);
  std::vector<GradientStore*> gradients;
  for (const auto& part : parts_) {
    part->collect_changes();
    part->gradients().finish();
    gradients.push_back(&part->gradients());
  }
  const double ranks = data_.size();
  std::vector<Communicator*> groups{&data_};
  for (Communicator* group : {zero_.tensor, zero_.pipeline})
    if (group != nullptr) groups.push_back(group);
  ZeroStep result{.grad_norm = gradient_norm(gradients, options_.norm_type, groups, *compute_, device_) / ranks};
  result.skipped = !std::isfinite(result.grad_norm);
  const double clip = options_.max_norm > 0 ? std::min(1.0, options_.max_norm / (result.grad_norm + 1e-6)) : 1.0;
  if (torch_) torch_->step(clip / ranks, result.skipped);
  for (size_t p = 0; p < parts_.size() && !torch_; ++p)
    parts_[p]->update({.step = steps_,
                       .update = updates_,
                       .learning_rate = static_cast<float>(groups_[group_of_part_[p]].learning_rate),
                       .gradient_scale = static_cast<float>(clip / ranks),
                       .skip = result.skipped ? 1 : 0});
  ++steps_;
  if (!result.skipped) ++updates_;
  for (const ModuleParts* parts : {&parts_, &frozen_})
    for (const auto& part : *parts) part->settle();
  return result;
}

StateDict ZeroOptimizer::Implementation::state_dict() {
  const at::NoGradGuard none;
  StateDict state;
  const StateRanks ranks = state_ranks(mesh_, zero_.sharding.ranks > 1);
  for (const auto& part : parts_) part->gather_state(ranks, state);
  if (ranks.receives) {
    state[kSteps] = at::scalar_tensor(steps_, at::kLong);
    state[kUpdates] = at::scalar_tensor(updates_, at::kLong);
  }
  gather_stages(mesh_.pipeline(), state);
  return state;
}

void ZeroOptimizer::Implementation::load_state_dict(const StateDict& state) {
  const at::NoGradGuard none;
  const auto number = [&](const char* key) {
    const auto found = state.find(key);
    if (found == state.end()) fail("ZeroOptimizer: the state has no {}", key);
    return found->second.item<int64_t>();
  };
  const int64_t steps = number(kSteps), updates = number(kUpdates);
  std::vector<std::string> own{kSteps, kUpdates};
  require_on_all(mesh_.pipeline(), [&] {
    for (const auto& part : parts_) std::ranges::move(require_state(part->store(), state), std::back_inserter(own));
  });
  if (const size_t keys = distinct_keys(mesh_.pipeline(), own); keys != state.size())
    fail("ZeroOptimizer: the state has {} keys, expected {}: it is of another model, or of another optimizer",
         state.size(), keys);
  drop();
  steps_ = steps;
  updates_ = updates;
  for (const auto& part : parts_) part->take_state(state);
  for (const auto& part : parts_) part->settle();
}

void ZeroOptimizer::Implementation::drop() {
  for (const auto& part : parts_)
    for (const NamedParameter& p : part->parameters()) p.tensor.mutable_grad().reset();
  if (!reduction_->drop()) return;
  for (const auto& part : parts_) part->gradients().drop();
}

ZeroOptimizer::ZeroOptimizer(std::vector<ParameterGroup> groups, const Mesh& mesh, const ZeroOptimizerOptions& options)
    : implementation_(std::make_unique<Implementation>(std::move(groups), mesh, options)) {}

ZeroOptimizer::ZeroOptimizer(std::vector<NamedParameter> parameters, const Mesh& mesh,
                             const ZeroOptimizerOptions& options)
    : ZeroOptimizer(std::vector<ParameterGroup>{{std::move(parameters), options.optimizer, options.learning_rate}},
                    mesh, options) {}

// On a GPU updates and reductions may still be writing into memory that is given back now.
ZeroOptimizer::~ZeroOptimizer() {
  if (!implementation_->device_.is_cpu()) try {
      zero_grad();
      implementation_->finish();
    } catch (...) {  // other ranks have failed, which is reported elsewhere
    }
}

ZeroStep ZeroOptimizer::step() {
  return implementation_->caller_.run([this] { return implementation_->step(); });
}

ZeroStep ZeroOptimizer::step(const std::function<void()>& closure) {
  closure();
  return step();
}

void ZeroOptimizer::expect_gradients(const std::vector<at::Tensor>& parameters) {
  implementation_->reduction_->expect(parameters);
}

void ZeroOptimizer::zero_grad() {
  implementation_->caller_.run([this] { implementation_->drop(); });
}

StateDict ZeroOptimizer::state_dict() {
  return implementation_->caller_.run([this] { return implementation_->state_dict(); });
}

void ZeroOptimizer::load_state_dict(const StateDict& state) {
  implementation_->caller_.run([&] { implementation_->load_state_dict(state); });
}

std::vector<NamedParameter> ZeroOptimizer::weights() const {
  std::vector<NamedParameter> all;
  const StateRanks ranks = state_ranks(implementation_->mesh_, /*sliced=*/false);
  for (const auto& part : implementation_->parts_)
    std::ranges::move(part->whole_weights(ranks), std::back_inserter(all));
  return all_stages(implementation_->mesh_.pipeline(), std::move(all));
}

void ZeroOptimizer::set_learning_rate(double rate) {
  implementation_->require_own_rates();
  for (ParameterGroup& group : implementation_->groups_) group.learning_rate = rate;
}

void ZeroOptimizer::set_learning_rate(size_t group, double rate) {
  implementation_->require_own_rates();
  implementation_->groups_.at(group).learning_rate = rate;
}

double ZeroOptimizer::learning_rate(size_t group) const { return implementation_->groups_.at(group).learning_rate; }

ZeroOptimizer::Memory ZeroOptimizer::memory() const {
  Memory total;
  for (const auto* parts : {&implementation_->parts_, &implementation_->frozen_})
    for (const auto& part : *parts) {
      const ParameterMemory m = part->memory();
      total.weights += m.weights;
      total.gradients += m.gradients;
      total.master += m.master;
      total.optimizer += m.optimizer;
      total.host += m.host;
      total.disk += m.disk;
    }
  return total;
}

int ZeroOptimizer::micro_batches() const { return implementation_->options_.micro_batches; }

size_t ZeroOptimizer::groups() const { return implementation_->groups_.size(); }

OptimizerAccess OptimizerAccess::to(ZeroOptimizer& optimizer) {
  ZeroOptimizer::Implementation& i = *optimizer.implementation_;
  return {i.parts_, i.frozen_, i.zero_, i.steps_, i.updates_, i.torch_ != nullptr, i.caller_};
}

}  // namespace partita
