// Master weights and optimizer states of this rank's slices, on the device or in host memory: set, read, and updated by
// the gradients of a step.
//
//   const std::vector<at::Tensor> masters = make_masters(plan, options);      // which weights are gathered from too
//   OptimizerShards shards(plan, options, masters, {.shard = *zero.shard, .weights = weights, ...});
//   shards.set(fill);
//   for each step:
//     ... forward ...
//     shards.finish();                                                        // before gradients are written
//     ... backward ...
//     shards.update(now);                                                     // and publishes the weights
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/device/copies.h"
#include "partita/device/stream.h"
#include "partita/engine/host_states.h"
#include "partita/engine/parameter_options.h"
#include "partita/nn/box.h"
#include "partita/ops/step_memory.h"
#include "partita/optim/optimizer.h"
#include "partita/shard/gradient_store.h"
#include "partita/shard/weight_store.h"

namespace partita::internal {

// [unit]: this rank's slices of master weights on the device, zero. Undefined: the unit is frozen, the weights are
// their own master weights, or these are on the host.
[[nodiscard]] std::vector<at::Tensor> make_masters(const UnitPlan&, const ParameterOptions&);

// Fills out [box.count()] with a box of the parameter, row by row; out is the memory that keeps it, of any device and
// dtype.
using FillWeights = std::function<void(const ParameterSpec&, const Box&, at::Tensor out)>;
// The same of fp32 values in host memory.
using ReadWeights = std::function<void(const ParameterSpec&, const Box&, std::span<float> out)>;
// Reads a piece at a time, and rounds and copies it to where the weights are kept.
[[nodiscard]] FillWeights from_host(ReadWeights);

// What this rank's slices have of a parameter, for checkpoints: elements of the global parameter. A slice may begin
// and end inside a row, so that it has up to three boxes of one parameter.
struct OwnedBox {
  const ParameterSpec* parameter;
  Box box;
  // [box.count()], row by row: master weights, then the optimizer's states; views. Of a frozen parameter: the weights in
  // the compute dtype alone.
  std::vector<at::Tensor> values;
};

class OptimizerShards {
 public:
  // All outlive this object.
  struct Collaborators {
    Communicator& shard;  // over which slices are cut
    WeightStore& weights;
    GradientStore* gradients;  // null: inference, nothing is updated
    Copies* copies;            // not null where states are on the host
    Stream& compute;
  };
  // The plan outlives this object, too. Errors: those of make_optimizer.
  OptimizerShards(const UnitPlan&, const ParameterOptions&, std::span<const at::Tensor> masters, const Collaborators&);
  OptimizerShards(const OptimizerShards&) = delete;
  OptimizerShards& operator=(const OptimizerShards&) = delete;

  // The weights of this rank's slices, published; optimizer states zero.
  void set(const FillWeights&);
  // Values of every slice, once all updates that were begun are done. After writing into them call publish().
  [[nodiscard]] std::vector<OwnedBox> owned_boxes() const;
  void publish();

  // One update by the gradients, which are finished: nothing changes where now.host.skip is set. The host's may still
  // run when it returns; whoever reads the weights waits.
  void update(const StepMemory& now);
  // Waits for the host's updates: gradients may be written again.
  void finish() const;

  [[nodiscard]] std::span<const std::string> optimizer_state_names() const { return optimizer_->state_names(); }

  struct Bytes {
    int64_t master = 0, optimizer = 0;  // on the device
    int64_t host = 0;                   // of both
  };
  [[nodiscard]] Bytes bytes() const;

 private:
  // work(unit) rewrites the unit's master weights and what is computed with; then it is published. What the host does
  // is given to it for all units before the first of them is published.
  void rewrite(std::span<const size_t> units, const std::function<void(size_t)>& work);
  void measure_norms(const StepScalars*);

  const UnitPlan& plan_;
  Collaborators with_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<ShardView> shards_;     // [unit]
  std::vector<size_t> update_order_;  // of the units that are trained
  at::Tensor norms_;                  // of the optimizer: [parameters, 2]; undefined where it needs none
  StepScalars host_now_;              // of an update on the host, which may still run when the next step's are written
  std::unique_ptr<HostStates> host_;  // null: all lies on the device. Last: its thread ends before what it reads
};

}  // namespace partita::internal
