// Master weights and optimizer states of this rank's slices, on the device or in host memory: initialized, read, and
// updated from the gradients of a step.
//
//   const std::vector<at::Tensor> masters = make_masters(plan, options);      // also the source of weight gathers
//   OptimizerShards shards(plan, options, masters, {.shard = *zero.shard, .weights = weights, ...});
//   shards.set(fill);
//   for each step:
//     ... forward ...
//     shards.finish();                                                        // before gradients are written
//     ... backward ...
//     shards.update(now);                                                     // publishes the weights
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

// [unit]: this rank's slices of the master weights on the device, zero. Undefined: the unit is frozen, has no separate
// master weights, or keeps them on the host.
[[nodiscard]] std::vector<at::Tensor> make_masters(const UnitPlan&, const ParameterOptions&);

// Fills out [box.count()] with a box of the parameter, row by row; out is the destination, of any device and dtype.
using FillWeights = std::function<void(const ParameterSpec&, const Box&, at::Tensor out)>;
// The same with fp32 values in host memory.
using ReadWeights = std::function<void(const ParameterSpec&, const Box&, std::span<float> out)>;
// Reads in pieces of up to 1M elements, each converted and copied to the destination.
[[nodiscard]] FillWeights from_host(ReadWeights);

// This rank's part of a parameter, for checkpoints, in coordinates of the global parameter. A slice may begin and end
// inside a row, so a parameter has up to three boxes per slice.
struct OwnedBox {
  const ParameterSpec* parameter;
  Box box;
  bool primary;  // false: another rank, of the tensor-parallel group or the first stage, holds the same and stores it
  // [box.count()], row by row, views: master weights, then the optimizer states. Frozen parameters: only the weights in
  // the compute dtype.
  std::vector<at::Tensor> values;
};

class OptimizerShards {
 public:
  // All must outlive this object.
  struct Collaborators {
    Communicator& shard;   // over which units are sliced
    Communicator* tensor;  // null: no tensor parallelism
    WeightStore& weights;
    GradientStore* gradients;  // null: inference, nothing is updated
    Copies* copies;            // required if units are on the host
    Stream& compute;
    Stream& update;  // runs updates on the device; compute, or another one
  };
  // The plan must outlive this object, too. Errors: those of make_optimizer.
  OptimizerShards(const UnitPlan&, const ParameterOptions&, std::span<const at::Tensor> masters, const Collaborators&);
  OptimizerShards(const OptimizerShards&) = delete;
  OptimizerShards& operator=(const OptimizerShards&) = delete;

  // Fills and publishes the weights of this rank's slices; zeroes optimizer states.
  void set(const FillWeights&);
  // Values of every slice; waits for pending updates. Call publish() after writing to them.
  [[nodiscard]] std::vector<OwnedBox> owned_boxes() const {
    states_are_zero_ = false;
    return boxes();
  }
  void publish();
  void publish(int unit);  // alone
  // [slice] of the unit, where owned_boxes has it; the weights themselves, if there are no separate master weights.
  [[nodiscard]] at::Tensor master(int unit) const {
    return on_host(static_cast<size_t>(unit)) ? host_->master(unit) : shards_[static_cast<size_t>(unit)].master;
  }

  // Master weights and optimizer states stay as they are until the event: they are being copied. The thread that begins
  // the next update waits for it.
  void hold(Event until) { held_ = std::move(until); }

  // Before gradients are computed; no update may run. With scalars, which are those of the next update(),
  // update_arrived() updates units in host memory whose gradients have been sent, while others are computed.
  void begin_gradients(const std::optional<StepScalars>& early);
  void update_arrived();
  // One update from the finished gradients, of what was not updated early; a no-op if now.host.skip is set. Updates of
  // the host, or of another stream, may still run on return; readers of the weights wait for them.
  void update(const StepMemory& now);
  // Waits for such updates, so that gradients may be written again.
  void finish() const;
  // Waits for that of one unit, so that its gradient may be written over.
  void finish(int unit) const;

  [[nodiscard]] std::span<const std::string> optimizer_state_names() const { return optimizer_->state_names(); }

  struct Bytes {
    int64_t master = 0, optimizer = 0;  // on the device
    int64_t host = 0, disk = 0;         // of both
  };
  [[nodiscard]] Bytes bytes() const;

 private:
  enum class Changes : uint8_t { all, compute_weights };  // all: master weights and optimizer states, too
  // Runs work(unit), which changes the unit's compute weights, and publishes the unit. Units on the device come first;
  // the work of the others is queued before the first of them is published.
  void rewrite(std::span<const size_t> units, Changes, const std::function<void(size_t)>& work);
  // `ready`: of an update, what it waits for.
  [[nodiscard]] Event queue_on_host(size_t unit, Changes, const std::function<void(size_t)>& work, Event ready);
  void publish(std::span<const size_t> units);
  void measure_norms(const StepScalars* on_device);
  [[nodiscard]] std::vector<OwnedBox> boxes() const;
  [[nodiscard]] std::unique_ptr<HostStates> make_host_states(const ParameterOptions&) const;
  [[nodiscard]] bool on_host(size_t unit) const { return plan_.units[unit].on_host(); }
  [[nodiscard]] const at::Tensor& norms(size_t unit) const { return on_host(unit) ? host_norms_ : norms_; }
  void wait_held() { std::exchange(held_, Event()).wait(); }
  [[nodiscard]] bool overlaps() const { return &with_.update != &with_.compute; }

  const UnitPlan& plan_;
  Collaborators with_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<ShardView> shards_;        // [unit]
  std::vector<size_t> update_order_;     // trainable units
  std::vector<Event> updated_;           // [unit]: its last update on the device
  mutable bool states_are_zero_ = true;  // nobody has had a chance to write them
  Event held_;
  bool early_ = false;                               // between begin_gradients, with scalars, and update
  std::vector<std::optional<Event>> updated_early_;  // [unit]: on the host, since begin_gradients
  // For the optimizer: [parameters, 2], of units on the device and on the host; undefined if it needs none.
  at::Tensor norms_, host_norms_;
  StepScalars host_now_;              // of the running host update, which may overlap the next step's scalars
  std::unique_ptr<HostStates> host_;  // null: no unit is on the host. Last: its thread ends before what it reads
};

}  // namespace partita::internal
