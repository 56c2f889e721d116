// Forward, backward and update over blocks, sharded parameters and the actions of a step: one visible loop.
//
//   Engine engine(make_blocks(config, DType::fp32), zero, mesh.data(), options);
//   engine.initialize(seed);
//   StepResult r = engine.step(batches, {.step = 0, .update = 0, .learning_rate = 6e-4F, .clip = 1});
//   EvalResult e = engine.evaluate(batch);
//
// One thread issues everything, in program order, the same on every rank.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partita/device/graph_runner.h"
#include "partita/engine/activation_offload.h"
#include "partita/engine/activations.h"
#include "partita/engine/amax_history.h"
#include "partita/engine/arena.h"
#include "partita/engine/engine_options.h"
#include "partita/engine/engine_plan.h"
#include "partita/engine/inputs.h"
#include "partita/engine/sharded_parameters.h"
#include "partita/nn/block.h"
#include "partita/nn/kv_cache.h"
#include "partita/ops/step_memory.h"
#include "partita/shard/zero.h"

namespace partita {

class Engine {
 public:
  // `data`: all data-parallel ranks, zero.shard x zero.replica. Communicators outlive the engine.
  Engine(std::vector<std::unique_ptr<Block>> blocks, const Zero& zero, Communicator& data, const EngineOptions&);

  // The weights of this rank's slices; optimizer states zero. From the host: set_weights(from_host(read)).
  void set_weights(const internal::FillWeights& fill) { parameters_.set(fill); }
  // Weights from their counter-based generator, made on the device that holds them.
  void initialize(uint64_t seed);
  // One optimizer step over options.micro_batches batches of options.shape.
  StepResult step(std::span<const Batch> batches, const StepInput&);
  // Where EngineOptions::graph is set: whether forward and backward are recorded and repeated, as at the start. false:
  // calls are made one by one, so that what they do can be measured and changed, and what was recorded is forgotten.
  void record_steps(bool);
  // Loss without dropout; all ranks call it together, each with its own batch of options.shape.
  EvalResult evaluate(const Batch&);
  // Logits [samples, vocabulary] fp32 of the last position of each sample; any shape. All ranks call it together. With
  // a cache the batch goes on behind what was read into it before.
  [[nodiscard]] at::Tensor logits(const Batch&, int64_t vocabulary, KvCache* = nullptr);

  // Everything that an identical engine needs to go on. After writing into the values call publish_weights. Offloaded
  // values are in host memory; they are those of the last step, which is waited for.
  [[nodiscard]] std::vector<internal::OwnedBox> owned_boxes() const { return parameters_.owned_boxes(); }
  void publish_weights() { parameters_.publish(); }

  // With delayed scales also AmaxHistory::values; empty without them, and before the first step. If empty, the next
  // step recalibrates. Equal on all ranks.
  [[nodiscard]] std::vector<float> amax_history() const { return scales_ ? scales_->values() : std::vector<float>(); }
  void set_amax_history(std::span<const float>);

  // Each once, in the order of the units.
  [[nodiscard]] std::vector<ParameterSpec> parameters() const { return parameters_.specs(); }
  // Of OwnedBox::values of this parameter.
  [[nodiscard]] DType stored_dtype(const ParameterSpec& p) const {
    return p.trainable ? options_.states : options_.compute;
  }
  [[nodiscard]] std::span<const std::string> optimizer_state_names() const {
    return parameters_.optimizer_state_names();
  }
  [[nodiscard]] const Zero& zero() const { return zero_; }
  [[nodiscard]] const internal::UnitPlan& plan() const { return plan_.units; }
  [[nodiscard]] EngineMemory memory() const;
  [[nodiscard]] const internal::UsePlan& uses() const { return plan_.training; }

 private:
  // Of the block, while those of the next are on their way.
  [[nodiscard]] Weights use_weights(int block, internal::Pass);
  void forward(Context&, internal::Activations&, int slot);
  // follows_forward: nothing ran between the forward of the micro-batch and its backward.
  void backward(Context&, const internal::Action&, bool follows_forward);
  // The batch where kernels read it; what was recorded is forgotten where that is elsewhere than before.
  void take(const Batch&, size_t input);
  [[nodiscard]] Context context(size_t input, internal::Activations&, Mode);
  void accumulate_gradients();  // of all micro-batches that were taken
  // What the step measured of tensors in 8 bits is kept for those to come.
  void record_scales(int64_t update, bool skipped);
  [[nodiscard]] int64_t count_valid_tokens(std::span<const Batch>);
  [[nodiscard]] int blocks() const { return static_cast<int>(blocks_.size()); }

  std::vector<std::unique_ptr<Block>> blocks_;
  Zero zero_;
  Communicator& data_;
  EngineOptions options_;
  internal::EnginePlan plan_;
  internal::Arena arena_;
  std::unique_ptr<Stream> compute_, communication_;
  std::unique_ptr<internal::Copies> copies_;                         // null: nothing is offloaded
  std::unique_ptr<internal::ActivationOffload> activation_offload_;  // null: all that is kept stays on the device
  internal::Activations activations_;
  std::unique_ptr<internal::AmaxHistory> scales_;     // null: no fp8, or current scaling
  std::unique_ptr<internal::Activations> inference_;  // of the last shape asked for in logits()
  internal::StepMemory now_;
  internal::Inputs inputs_;                              // [micro-batch]
  at::Tensor sums_;                                      // [2] double: squared norm, loss
  std::unique_ptr<internal::GraphRunner> accumulation_;  // null: its work is given to the device call by call
  internal::ShardedParameters parameters_;               // last: the host's updates end before what they read
};

}  // namespace partita
