// Master weights and optimizer states of this rank's slices, on the device or in host memory: set, read, and updated by
// the gradients of a step.
//
//   const std::vector<at::Tensor> masters = make_masters(plan, options);      // which weights are gathered from too
//   States states(plan, options, masters, {.shard = *zero.shard, .weights = weights, .grads = &grads, ...});
//   states.set(fill);
//   for each step:
//     ... forward ...
//     states.finish();                                                        // before gradients are written
//     ... backward ...
//     states.update(now);                                                     // and publishes the weights
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partita/comm/communicator.h"
#include "partita/comm/copies.h"
#include "partita/comm/stream.h"
#include "partita/engine/engine_options.h"
#include "partita/engine/engine_plan.h"
#include "partita/engine/host_states.h"
#include "partita/ops/step_memory.h"
#include "partita/optim/optimizer.h"
#include "partita/shard/grad_store.h"
#include "partita/shard/weight_store.h"

namespace partita {

// [unit]: this rank's slices of master weights on the device, zero. Undefined: the unit is frozen, the weights are
// their own master weights, or these lie on the host.
[[nodiscard]] std::vector<at::Tensor> make_masters(const EnginePlan&, const EngineOptions&);

// Fills out [n] with elements begin .. of the parameter; out is the memory that keeps them, of any device and dtype.
using FillWeights = std::function<void(const ParameterSpec&, int64_t begin, at::Tensor out)>;
// The same of fp32 values in host memory.
using ReadWeights = std::function<void(const ParameterSpec&, int64_t begin, std::span<float> out)>;
// Reads a piece at a time, and rounds and copies it to where the weights are kept.
[[nodiscard]] FillWeights from_host(ReadWeights);

class States {
 public:
  // What they are kept beside, all of which outlives them.
  struct Parts {
    Communicator& shard;  // over which slices are cut
    WeightStore& weights;
    GradStore* grads;  // null: inference, nothing is updated
    Copies* copies;    // not null where plan.states_on_host
    Stream& compute;
  };
  // The plan outlives them too. Errors: those of make_optimizer.
  States(const EnginePlan&, const EngineOptions&, std::span<const at::Tensor> masters, const Parts&);
  States(const States&) = delete;
  States& operator=(const States&) = delete;

  // The weights of this rank's slices, published; optimizer states zero.
  void set(const FillWeights&);
  // Values of every slice, once all updates that were begun are done. After writing into them call publish().
  [[nodiscard]] std::vector<OwnedRun> owned_runs() const;
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
  Parts parts_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<ShardView> shards_;     // [unit]
  std::vector<size_t> update_order_;  // of the units that are trained
  at::Tensor norms_;                  // of the optimizer: [parameters, 2]; undefined where it needs none
  StepScalars host_now_;              // of an update on the host, which may still run when the next step's are written
  std::unique_ptr<HostStates> host_;  // null: all lies on the device. Last: its thread ends before what it reads
};

}  // namespace partita
