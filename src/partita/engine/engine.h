// Forward, backward and update over blocks, stores and a schedule: one visible loop.
//
//   Engine engine(make_gpt2(config, DType::fp32), zero, mesh.data(), options);
//   engine.initialize(seed);
//   StepResult r = engine.step(batches, {.step = 0, .learning_rate = 6e-4F, .clip = 1});
//   EvalResult e = engine.evaluate(batch);
//
// One thread issues everything, in program order, the same on every rank.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "partita/engine/activations.h"
#include "partita/nn/block.h"
#include "partita/optim/adamw.h"
#include "partita/shard/grad_store.h"
#include "partita/shard/weight_store.h"

namespace partita {

struct EngineOptions {
  Shape shape;                  // of a micro-batch in training and evaluation
  int micro_batches = 1;        // a step, on this rank
  int64_t width = 0;            // of the residual stream
  DType compute = DType::fp32;  // fp32, or bf16 with fp32 master weights
  Keep keep = Keep::all;        // entry: full recomputation
  int blocks_per_unit = 0;      // 0: automatic
  AdamWOptions optimizer;
  uint64_t seed = 0;     // of dropout
  bool training = true;  // false: no gradients and optimizer states; step() may not be called
  bool poison = false;   // released weight slots and fresh gradient buffers are filled with NaN
};

struct StepInput {
  int64_t step = 0;  // 0 for the first
  float learning_rate = 0;
  float clip = 0;  // highest gradient norm; 0: no clipping
};

// Equal on all ranks.
struct StepResult {
  double loss = 0;       // mean over the valid tokens of all ranks and micro-batches
  double grad_norm = 0;  // before clipping
  int64_t tokens = 0;    // valid ones
  bool skipped = false;  // the norm was not finite: nothing was updated
};

// Equal on all ranks.
struct EvalResult {
  double loss_sum = 0;
  int64_t tokens = 0;
};

// Bytes on this rank by owner.
struct EngineMemory {
  int64_t weights = 0, gradients = 0, master = 0, optimizer = 0, activations = 0, temporaries = 0;
};

// A run of one parameter in this rank's slices, for checkpoints: elements [begin, begin + count) of `parameter`.
struct OwnedRun {
  const ParameterSpec* parameter;
  int64_t begin, count;
  std::vector<at::Tensor> values;  // master, then the optimizer's states; views, fp32
};

class Engine {
 public:
  // `data`: all data-parallel ranks, zero.shard x zero.replica. Communicators outlive the engine.
  Engine(std::vector<std::unique_ptr<Block>> blocks, const Zero& zero, Communicator& data, const EngineOptions&);

  // Weights from their counter-based generator, optimizer states zero.
  void initialize(uint64_t seed);
  // One optimizer step over options.micro_batches batches of options.shape.
  StepResult step(std::span<const Batch> batches, const StepInput&);
  // Loss without dropout; all ranks call it together, each with its own batch of options.shape.
  EvalResult evaluate(const Batch&);
  // Logits [samples, vocabulary] fp32 of the last position of each sample; any shape. All ranks call it together.
  [[nodiscard]] at::Tensor logits(const Batch&, int64_t vocabulary);

  // Everything that an identical engine needs to go on. After writing into the values call publish_weights.
  [[nodiscard]] std::vector<OwnedRun> owned_runs() const;
  void publish_weights();

  [[nodiscard]] std::vector<ParameterSpec> parameters() const;  // each once, in the order of the units
  [[nodiscard]] const UnitPlan& plan() const { return plan_; }
  [[nodiscard]] EngineMemory memory() const;
  [[nodiscard]] const std::vector<bool>& backward_reads() const { return backward_reads_; }

 private:
  void forward(Context&, Activations&);
  void backward(Context&, Activations&, bool last_micro_batch);
  [[nodiscard]] Context context(const Batch&, Activations&, Mode);
  [[nodiscard]] int64_t count_valid_tokens(std::span<const Batch>);
  void update();
  [[nodiscard]] int blocks() const { return static_cast<int>(blocks_.size()); }

  std::vector<std::unique_ptr<Block>> blocks_;
  Zero zero_;
  Communicator& data_;
  EngineOptions options_;
  std::vector<bool> backward_reads_;
  UnitPlan plan_;
  CpuStream compute_, side_;
  WeightStore weights_;
  std::unique_ptr<GradStore> grads_;  // null: inference alone
  Activations activations_;
  std::unique_ptr<Activations> inference_;  // of the last shape asked for in logits()
  AdamWOptimizer optimizer_;
  std::vector<ShardView> shards_;                // [unit]
  std::vector<std::vector<OptimizerRun>> runs_;  // [unit]
  StepScalars now_;
  double loss_sum_ = 0;
};

}  // namespace partita
