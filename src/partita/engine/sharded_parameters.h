// Sharded parameters: full weights where they are used, reduced gradients, and this rank's slices of master weights and
// optimizer states. All of ZeRO, without blocks, batches or activations.
//
//   ShardedParameters parameters(units, zero, {.compute = DType::bf16}, {}, copies, compute, communication, compute);
//   parameters.set(fill);
//   for each step:
//     parameters.weights().begin(uses); ...              // forward and backward: weight_store.h, gradient_store.h
//     parameters.gradients().finish();
//     parameters.update(now);
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partita/engine/optimizer_shards.h"
#include "partita/engine/parameter_options.h"
#include "partita/shard/gradient_store.h"
#include "partita/shard/weight_store.h"

namespace partita::internal {

class ShardedParameters {
 public:
  // Byte tensors for gradients, shared with other uses outside their lifetime; see GradientStore::Options. Empty: none.
  struct GradientMemory {
    std::vector<at::Tensor> buffers, slices;  // [unit]
  };
  // The plan, the streams and copies must outlive this object; copies is required if units are on the host. On the
  // device, updates run on the stream `update`, and so do, if it is not `compute`, norms of gradients.
  ShardedParameters(const UnitPlan&, const Zero&, const ParameterOptions&, GradientMemory, Copies*, Stream& compute,
                    Stream& communication, Stream& update);

  [[nodiscard]] WeightStore& weights() { return weights_; }
  [[nodiscard]] GradientStore& gradients() { return *gradients_; }
  [[nodiscard]] bool trains() const { return gradients_ != nullptr; }

  // Fills this rank's slices in place; zeroes optimizer states. From host data: set(from_host(read)).
  void set(const FillWeights& fill) { shards_.set(fill); }
  // All state of this rank that identical parameters need to resume; call publish after writing to the values.
  // Offloaded values are in host memory; waits for the last update.
  [[nodiscard]] std::vector<OwnedBox> owned_boxes() const { return shards_.owned_boxes(); }
  // Until the event, while a checkpoint copies them, these values stay as they are; see optimizer_shards.h.
  void hold(Event until) { shards_.hold(std::move(until)); }
  void publish() { shards_.publish(); }
  void publish(int unit) { shards_.publish(unit); }
  // One optimizer step from the finished gradients; see optimizer_shards.h.
  void update(const StepMemory& now) { shards_.update(now); }
  void begin_gradients(const std::optional<StepScalars>& early) { shards_.begin_gradients(early); }
  void update_arrived() { shards_.update_arrived(); }
  // Waits for updates that still run, so that gradients may be written again.
  void finish_update() const { shards_.finish(); }
  void finish_update(int unit) const { shards_.finish(unit); }
  // Waits for updates and gathers that still run, so that memory may be given back.
  void finish() const {
    finish_update();
    weights_.finish();
  }
  [[nodiscard]] std::span<const std::string> optimizer_state_names() const { return shards_.optimizer_state_names(); }

  // This rank's slice of the unit's master weights; the weights themselves, if there are no others. Of units on the
  // host in host memory.
  [[nodiscard]] at::Tensor master(int unit) const { return shards_.master(unit); }

  [[nodiscard]] std::vector<ParameterSpec> specs() const;  // each parameter once, in the order of the units
  [[nodiscard]] ParameterMemory memory() const;            // measured; equal to predict_parameter_memory

 private:
  const UnitPlan& plan_;
  std::vector<at::Tensor> masters_;  // [unit]: see make_masters
  WeightStore weights_;
  std::unique_ptr<GradientStore> gradients_;  // null: inference
  OptimizerShards shards_;                    // last: host updates end before what they read
};

}  // namespace partita::internal
