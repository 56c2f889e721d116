// Parameters of one group and one dtype: their units, and what shard/ and engine/ store and update of them. The user's
// parameters become views of the full weights, so that an update is seen through them; with ZeRO-3 these are there only
// while operations read them (weights_on_demand.h).
//
//   ModuleParameters part(parameters, zero, options, {compute, communication, update});
//   part.adopt(initial);
//   part.finish_update();                                                     // before the first gradient of a step
//   part.write(unit, index, gradient);  part.gradients().close(unit, last);   // in backward
//   part.gradients().finish();
//   part.update(now);
//   part.settle();
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "partita/device/copies.h"
#include "partita/engine/sharded_parameters.h"
#include "partita/module/module_state.h"
#include "partita/module/parameter_group.h"
#include "partita/module/weights_on_demand.h"
#include "partita/ops/step_memory.h"
#include "partita/shard/states_place.h"
#include "partita/shard/use_plan.h"
#include "partita/shard/zero.h"

namespace partita::internal {

class ModuleParameters {
 public:
  struct Options {
    bool trained = true;  // false: frozen, with weights alone; only with ZeRO-3, and without what concerns gradients
    DType states = DType::fp32;  // of what is trained
    int micro_batches = 1;
    bool early_norms = false;  // ParameterOptions::early_norms
    OptimizerOptions optimizer;
    int64_t unit_elements = 1;
    StatesShares away = {};             // of what is trained; see place_states
    std::filesystem::path disk_folder;  // of what is on disk
    Copies* copies = nullptr;           // required with shares; must outlive this object
    Communicator* agreeing = nullptr;   // ranks that all have the error of make_parts of any of them; null: none do
    bool poison = false;                // ParameterOptions::poison
    at::Device device = at::kCPU;
  };
  // All must outlive this object.
  struct Streams {
    Stream &compute, &communication;
    // Runs updates, and the norms of gradients under backward; compute, or another one, so that with ZeRO-3 the next
    // forward runs under updates.
    Stream& update;
  };
  // Nothing happens to the parameters until adopt. Errors: states in neither fp32 nor the parameters' dtype; those of
  // make_optimizer and of ScratchFile.
  ModuleParameters(const std::vector<NamedParameter>&, const Zero&, const Options&, const Streams&);
  ModuleParameters(const ModuleParameters&) = delete;
  ModuleParameters& operator=(const ModuleParameters&) = delete;

  [[nodiscard]] const std::vector<NamedParameter>& parameters() const { return parameters_; }  // unit by unit
  [[nodiscard]] const std::vector<Unit>& units() const { return plan_.units; }
  [[nodiscard]] const SlotPlan& gradient_slots() const { return gradient_slots_; }
  [[nodiscard]] GradientStore& gradients() { return store_->gradients(); }
  [[nodiscard]] ShardedParameters& store() { return *store_; }
  [[nodiscard]] DType states() const { return states_; }
  [[nodiscard]] ParameterMemory memory() const;
  // With ZeRO-3: see WeightsOnDemand. 0: without.
  [[nodiscard]] uint64_t order() const { return on_demand_ ? on_demand_->order() : 0; }

  // The parameters become views of what is stored here. `initial` gives the values to begin with, of one parameter
  // after the other, in an order that is the same on all ranks. Once.
  using Initial = std::function<at::Tensor(const at::Tensor& parameter)>;
  void adopt(const Initial&);

  // All weights whole, in host memory. Collective.
  [[nodiscard]] std::vector<NamedParameter> whole_weights(const StateRanks&) const;
  // Adds the gradient of a parameter, given by its place in the unit.
  void write(int unit, int parameter, const at::Tensor& gradient);
  // Error: a parameter has a gradient, or other memory than it was given.
  void require_untouched() const;
  // Takes the values that the user has written since the last step into this rank's slices. With ZeRO-3 all full
  // weights leave.
  void collect_changes();
  void update(const StepScalars&);
  // Waits for an update that still runs, so that gradients may be written again.
  void finish_update() const { store_->finish_update(); }
  // The state as whole tensors (module_state.h). take_state is followed by settle.
  void gather_state(const StateRanks&, StateDict&);
  void take_state(const StateDict&);
  // After values of the store's boxes were written; followed by settle.
  void publish() { store_->publish(); }
  // Waits for the updated weights of all ranks; with ZeRO-3 these are gathered when they are used.
  void settle();

 private:
  void use_weights(const std::function<void(std::span<const at::Tensor>)>& visit);
  // The parameter of this number is a view of its weights from now on.
  void set_data(size_t parameter, const at::Tensor& data);
  // Values by name, of whole parameters.
  void keep(const std::map<std::string, at::Tensor>& values);
  [[nodiscard]] size_t first_of_unit(int unit) const;

  DType states_;
  std::vector<NamedParameter> parameters_;
  std::vector<double> shares_;  // [parameter]: factor of gradients, where tensor-parallel ranks have the same ones
  UnitPlan plan_;
  UsePlan uses_;
  SlotPlan gradient_slots_;
  std::unique_ptr<ShardedParameters> store_;
  StepMemory now_;
  std::vector<int64_t> versions_;                // [parameter]: of its values, as the last step left them
  std::vector<const c10::StorageImpl*> memory_;  // [parameter]: of its values
  std::unique_ptr<WeightsOnDemand> on_demand_;   // null: full weights stay. First to go: it calls the others
};

using ModuleParts = std::vector<std::unique_ptr<ModuleParameters>>;
// Of parameters with several dtypes: one part for each.
[[nodiscard]] ModuleParts make_parts(const std::vector<NamedParameter>&, const Zero&, const ModuleParameters::Options&,
                                     const ModuleParameters::Streams&);

}  // namespace partita::internal
