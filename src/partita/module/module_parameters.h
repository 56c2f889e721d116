// Parameters of one group and one dtype: their units, and what shard/ and engine/ store and update of them. The user's
// parameters become views of the full weights, so that an update is seen through them.
//
//   ModuleParameters part(parameters, zero, options, initial, compute, communication);
//   part.write(unit, index, gradient);  part.gradients().close(unit, last);   // in backward
//   part.gradients().finish();
//   part.update(now);
//   part.settle();
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "partita/engine/sharded_parameters.h"
#include "partita/module/parameter_group.h"
#include "partita/ops/step_memory.h"
#include "partita/shard/use_plan.h"
#include "partita/shard/zero.h"

namespace partita::internal {

class ModuleParameters {
 public:
  struct Options {
    DType states = DType::fp32;
    int micro_batches = 1;
    OptimizerOptions optimizer;
    int64_t unit_elements = 1;
    at::Device device = at::kCPU;
  };
  // `initial` gives the values to begin with. The streams must outlive this object. Errors: states in neither fp32 nor
  // the parameters' dtype; a name that occurs twice; those of make_optimizer.
  ModuleParameters(const std::vector<NamedParameter>&, const Zero&, const Options&,
                   const std::function<at::Tensor(const at::Tensor& parameter)>& initial, Stream& compute,
                   Stream& communication);
  ModuleParameters(const ModuleParameters&) = delete;
  ModuleParameters& operator=(const ModuleParameters&) = delete;

  [[nodiscard]] const std::vector<NamedParameter>& parameters() const { return parameters_; }  // unit by unit
  [[nodiscard]] const std::vector<Unit>& units() const { return plan_.units; }
  [[nodiscard]] const SlotPlan& gradient_slots() const { return gradient_slots_; }
  [[nodiscard]] GradientStore& gradients() { return store_->gradients(); }
  [[nodiscard]] ParameterMemory memory() const { return store_->memory(); }

  // Adds the gradient of a parameter, given by its place in the unit.
  void write(int unit, int parameter, const at::Tensor& gradient);
  // Error: a parameter has a gradient, or other memory than it was given.
  void require_untouched() const;
  // Values that the user has written since the last step, into master weights of another dtype.
  void take_changes();
  void update(const StepScalars&);
  // Waits for the updated weights of all ranks.
  void settle();

 private:
  void use_weights(const std::function<void(std::span<const at::Tensor>)>& visit);

  std::vector<NamedParameter> parameters_;
  UnitPlan plan_;
  UsePlan uses_;
  SlotPlan gradient_slots_;
  std::unique_ptr<ShardedParameters> store_;
  StepMemory now_;
  std::vector<int64_t> versions_;    // [parameter]: of its values, as the last step left them
  std::vector<const void*> memory_;  // [parameter]: of its values
};

}  // namespace partita::internal
