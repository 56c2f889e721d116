// Parameters of which every rank holds its share: full weights where they are used, gradients that are reduced, and
// this rank's slices of master weights and optimizer states. All of ZeRO, without blocks, batches or activations.
//
//   ShardedParameters parameters(units, zero, {.compute = DType::bf16}, {}, compute, communication);
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
#include <vector>

#include "partita/engine/optimizer_shards.h"
#include "partita/engine/parameter_options.h"
#include "partita/shard/gradient_store.h"
#include "partita/shard/weight_store.h"

namespace partita::internal {

class ShardedParameters {
 public:
  // Memory in bytes that is used by others, too, while there are no gradients: GradientStore::Options. Empty: none.
  struct GradientMemory {
    std::vector<at::Tensor> buffers, slices;  // [unit]
  };
  // The plan and the streams outlive this object, as do copies, which are needed where options.states_on_host.
  ShardedParameters(const UnitPlan&, const Zero&, const ParameterOptions&, GradientMemory, Copies*, Stream& compute,
                    Stream& communication);

  [[nodiscard]] WeightStore& weights() { return weights_; }
  [[nodiscard]] GradientStore& gradients() { return *gradients_; }
  [[nodiscard]] bool trains() const { return gradients_ != nullptr; }

  // This rank's slices, written where they are stored; optimizer states zero. From the host: set(from_host(read)).
  void set(const FillWeights& fill) { shards_.set(fill); }
  // Everything of this rank that identical parameters need to go on. After writing into the values call publish.
  // Offloaded values are in host memory; they are those of the last update, which is waited for.
  [[nodiscard]] std::vector<OwnedBox> owned_boxes() const { return shards_.owned_boxes(); }
  void publish() { shards_.publish(); }
  // One optimizer step by the finished gradients: optimizer_shards.h.
  void update(const StepMemory& now) { shards_.update(now); }
  // Waits for updates by the host: gradients may be written again.
  void finish_update() const { shards_.finish(); }
  [[nodiscard]] std::span<const std::string> optimizer_state_names() const { return shards_.optimizer_state_names(); }

  [[nodiscard]] std::vector<ParameterSpec> specs() const;  // each once, in the order of the units
  [[nodiscard]] ParameterMemory memory() const;            // measured; equal to predict_parameter_memory

 private:
  const UnitPlan& plan_;
  std::vector<at::Tensor> masters_;  // [unit], make_masters
  WeightStore weights_;
  std::unique_ptr<GradientStore> gradients_;  // null: inference
  OptimizerShards shards_;                    // last: the host's updates end before what they read
};

}  // namespace partita::internal
