// Forward, backward and update over blocks and sharded parameters, driven by the list of actions of a step: one visible
// loop.
//
//   Engine engine(make_blocks(model, DType::fp32), zero, mesh.data(), options);
//   engine.initialize(seed);
//   StepResult r = engine.step(batches, {.step = 0, .update = 0, .learning_rate = 6e-4F, .clip = 1});
//   EvalResult e = engine.evaluate(batch);
//
// One thread issues all work, in the same order on every rank.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partita/device/graph_runner.h"
#include "partita/device/stopwatch.h"
#include "partita/engine/activation_offload.h"
#include "partita/engine/activations.h"
#include "partita/engine/amax_history.h"
#include "partita/engine/arena.h"
#include "partita/engine/engine_options.h"
#include "partita/engine/engine_plan.h"
#include "partita/engine/handover.h"
#include "partita/engine/inputs.h"
#include "partita/engine/open_gradients.h"
#include "partita/engine/sharded_parameters.h"
#include "partita/nn/block.h"
#include "partita/nn/context_parallel.h"
#include "partita/nn/kv_cache.h"
#include "partita/nn/tensor_parallel.h"
#include "partita/ops/step_memory.h"
#include "partita/shard/zero.h"

namespace partita {

class Engine {
 public:
  // `data`: all data- and context-parallel ranks, zero.shard x zero.replica. The communicators must outlive the engine.
  Engine(std::vector<std::unique_ptr<Block>> blocks, const Zero& zero, Communicator& data, const EngineOptions&);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Sets the weights of this rank's slices; zeroes optimizer states. From host data: set_weights(from_host(read)).
  void set_weights(const internal::FillWeights& fill) { parameters_.set(fill); }
  // Draws the weights from their counter-based generator, on the device that holds them.
  void initialize(uint64_t seed);
  // One optimizer step over options.micro_batches batches of options.shape.
  StepResult step(std::span<const Batch> batches, const StepInput&);
  // Whether the passes of later steps are timed.
  void time_actions(bool);
  // Of the last step's passes, in their order; empty if they were not timed. A pass begins when its inputs have
  // arrived; on GPUs the first ones may still wait for updates of their weights.
  [[nodiscard]] std::vector<internal::TimedAction> action_times();
  // With EngineOptions::graph, whether forward and backward are recorded and replayed (on at the start). false: run
  // eagerly, so that kernels can be profiled and changed; discards the recording.
  void record_steps(bool);
  // Loss without dropout. Collective: every rank passes a batch of options.shape.
  EvalResult evaluate(const Batch&);
  // Logits [samples, vocabulary] fp32 of the last position of each sample; any batch shape. Collective. With a cache
  // the batch continues the tokens already in it.
  [[nodiscard]] at::Tensor logits(const Batch&, int64_t vocabulary, KvCache* = nullptr);

  // All state that an identical engine needs to resume; call publish_weights after writing to the values. Offloaded
  // values are in host memory; waits for the last update.
  [[nodiscard]] std::vector<internal::OwnedBox> owned_boxes() const { return parameters_.owned_boxes(); }
  void publish_weights() { parameters_.publish(); }
  // The next update waits for the event, so that these values can be read meanwhile.
  void hold_updates(Event until) { parameters_.hold(std::move(until)); }

  // AmaxHistory::values of the whole model with delayed scales, equal on all ranks; empty without them and before the
  // first step. If empty, the next step recalibrates. Both are collective.
  [[nodiscard]] std::vector<float> amax_history() const;
  void set_amax_history(std::span<const float>);

  // Each parameter of the model once.
  [[nodiscard]] std::vector<ParameterSpec> parameters() const {
    return options_.model_parameters.empty() ? parameters_.specs() : options_.model_parameters;
  }
  // Dtype of OwnedBox::values for this parameter.
  [[nodiscard]] DType stored_dtype(const ParameterSpec& p) const {
    return p.trainable && options_.training ? options_.states : options_.compute;
  }
  [[nodiscard]] std::span<const std::string> optimizer_state_names() const {
    return parameters_.optimizer_state_names();
  }
  [[nodiscard]] const Zero& zero() const { return zero_; }
  [[nodiscard]] bool sequence_parallel() const { return options_.tensor.splits_rows(options_.shape.rows()); }
  [[nodiscard]] const PipelineStage& pipeline() const { return options_.pipeline; }
  [[nodiscard]] const internal::UnitPlan& plan() const { return plan_.units; }
  [[nodiscard]] EngineMemory memory() const;
  [[nodiscard]] const internal::UsePlan& uses() const { return plan_.training; }

 private:
  // Gathers the weights of the block and starts prefetching the next ones.
  [[nodiscard]] Weights use_weights(int block, internal::Pass);
  // The blocks of the action's chunk.
  void forward(Context&, internal::Activations&, const internal::Action&);
  // follows_forward: the previous pass was the forward of the same chunk and micro-batch.
  void backward(Context&, const internal::Action&, bool follows_forward);
  // The weight gradients that a backward pass of input gradients left open.
  void weight_gradients(const internal::Action&);
  // Copies the batch to its input buffers; invalidates the recorded graph if their addresses changed.
  void take(const Batch&, size_t input);
  [[nodiscard]] Context context(size_t input, internal::Activations&, Mode);
  void accumulate_gradients();  // all micro-batches of the step
  // The factor of all gradients in this step's updates, if they may begin before its gradient norm is known.
  [[nodiscard]] std::optional<float> early_scale(const StepInput&) const;
  // Records the step's fp8 amax values for later steps.
  void record_scales(int64_t update, bool skipped);
  // Sums the squared norm over all ranks, and the loss over data-parallel ranks and pipeline stages.
  void sum_over_ranks();
  [[nodiscard]] int64_t count_valid_tokens(std::span<const Batch>);
  void mark() {
    if (stopwatch_) stopwatch_->mark();
  }
  [[nodiscard]] int blocks() const { return static_cast<int>(blocks_.size()); }

  std::vector<std::unique_ptr<Block>> blocks_;
  Zero zero_;
  Communicator& data_;
  EngineOptions options_;
  internal::EnginePlan plan_;
  internal::Arena arena_;
  std::unique_ptr<Stream> compute_, communication_;
  std::unique_ptr<Stream> update_;                                   // null: updates run on compute_
  std::unique_ptr<TensorParallel> tensor_;                           // null: this rank computes whole blocks
  std::unique_ptr<ContextParallel> sequence_;                        // null: this rank has whole sequences
  std::unique_ptr<internal::Handover> handover_;                     // null: no pipeline
  std::unique_ptr<internal::Copies> copies_;                         // null: nothing is offloaded
  std::unique_ptr<internal::ActivationOffload> activation_offload_;  // null: saved activations stay on the device
  internal::Activations activations_;
  internal::OpenGradients open_gradients_;
  std::unique_ptr<internal::AmaxHistory> scales_;        // null: no fp8, or current scaling
  std::unique_ptr<internal::Activations> inference_;     // for the last shape passed to logits()
  internal::StepMemory now_, update_now_;                // update_now_: of the update, which the next step may overlap
  std::optional<StepScalars> early_;                     // of this step's updates, if they begin under backward
  internal::Inputs inputs_;                              // [micro-batch]
  std::unique_ptr<internal::Stopwatch> stopwatch_;       // null: passes are not timed
  at::Tensor sums_;                                      // [2] double: squared norm, loss
  std::unique_ptr<internal::GraphRunner> accumulation_;  // null: runs eagerly
  internal::ShardedParameters parameters_;               // last: host updates end before what they read
};

}  // namespace partita
