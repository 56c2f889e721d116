// Forward, backward and update over blocks, stores and a schedule: one visible loop.
//
//   Engine engine(make_blocks(config, DType::fp32), zero, mesh.data(), options);
//   engine.initialize(seed);
//   StepResult r = engine.step(batches, {.step = 0, .update = 0, .learning_rate = 6e-4F, .clip = 1});
//   EvalResult e = engine.evaluate(batch);
//
// One thread issues everything, in program order, the same on every rank.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "partita/comm/repeated.h"
#include "partita/engine/activation_offload.h"
#include "partita/engine/activations.h"
#include "partita/engine/arena.h"
#include "partita/engine/host_states.h"
#include "partita/nn/block.h"
#include "partita/nn/kv_cache.h"
#include "partita/ops/step_memory.h"
#include "partita/optim/optimizer.h"
#include "partita/shard/grad_store.h"
#include "partita/shard/weight_store.h"

namespace partita {

// What lies in host memory instead of the device's. On the CPU the same copies are made, within its own memory.
struct Offload {
  bool optimizer = false;                           // master weights, optimizer states and gradients, updated by the host
  int activations = 0;                              // what so many layers, the first, keep from forward to backward
  std::function<std::unique_ptr<Copies>()> copies;  // who makes the copies; empty: make_copies of the device
};

struct EngineOptions {
  Shape shape;                  // of a micro-batch in training and evaluation
  int micro_batches = 1;        // a step, on this rank
  int64_t width = 0;            // of the residual stream
  DType compute = DType::fp32;  // of weights and activations in forward and backward: fp32, bf16 or fp16
  // Of master weights and optimizer states. bf16, with compute bf16: no master weights, and updates round stochastically.
  DType states = DType::fp32;
  bool fp32_gradients = false;  // also where they need not be: nothing is added to them but once, by the ranks
  Keep keep = Keep::all;        // entry: full recomputation
  int entry_layers = 0;         // of the first so many layers the entry alone is kept
  int blocks_per_unit = 0;  // 0: automatic
  at::Device device = at::kCPU;
  OptimizerOptions optimizer;
  std::function<bool(const ParameterSpec&)> frozen;  // empty: everything is trained
  Offload offload;
  uint64_t seed = 0;     // of dropout
  bool graph = false;    // forward and backward are recorded once and repeated as a whole: for one rank alone
  bool training = true;  // false: no gradients and optimizer states; step() may not be called
  bool poison = false;   // released weight slots and fresh gradient buffers are filled with NaN
};

struct StepInput {
  int64_t step = 0;    // 0 for the first
  int64_t update = 0;  // step less the skipped ones
  float learning_rate = 0;
  float clip = 0;        // highest gradient norm; 0: no clipping
  float loss_scale = 1;  // gradients are made so many times as large, which keeps those of fp16 from vanishing
};

// Equal on all ranks.
struct StepResult {
  double loss = 0;       // mean over the valid tokens of all ranks and micro-batches
  double grad_norm = 0;  // before clipping
  int64_t tokens = 0;    // valid ones
  bool skipped = false;  // the norm was not finite on some rank: no rank updated anything
};

// Equal on all ranks.
struct EvalResult {
  double loss_sum = 0;
  int64_t tokens = 0;
};

// Bytes on this rank by owner.
struct EngineMemory {
  int64_t weights = 0, gradients = 0, master = 0, optimizer = 0, activations = 0, temporaries = 0;
  int64_t shared = 0;  // of the gradients: lie where activations lay, and take no memory of their own
  int64_t host = 0;    // of what was offloaded, in host memory; the others count the device's
};

// A run of one parameter in this rank's slices, for checkpoints: elements [begin, begin + count) of `parameter`.
struct OwnedRun {
  const ParameterSpec* parameter;
  int64_t begin, count;
  // Master weights, then the optimizer's states; views. Of a frozen parameter: the weights in the compute dtype alone.
  std::vector<at::Tensor> values;
};

class Engine {
 public:
  // `data`: all data-parallel ranks, zero.shard x zero.replica. Communicators outlive the engine.
  Engine(std::vector<std::unique_ptr<Block>> blocks, const Zero& zero, Communicator& data, const EngineOptions&);

  // Fills out with elements begin .. of the parameter.
  using ReadWeights = std::function<void(const ParameterSpec&, int64_t begin, std::span<float> out)>;
  // This rank's slices from whatever holds them, a piece at a time; optimizer states zero.
  void set_weights(const ReadWeights&);
  // Weights from their counter-based generator.
  void initialize(uint64_t seed);
  // One optimizer step over options.micro_batches batches of options.shape.
  StepResult step(std::span<const Batch> batches, const StepInput&);
  // Where EngineOptions::graph is set: whether forward and backward are recorded and repeated, as at the start. false: calls
  // are made one by one, so that what they do can be measured and changed, and what was recorded is forgotten.
  void record_steps(bool);
  // Loss without dropout; all ranks call it together, each with its own batch of options.shape.
  EvalResult evaluate(const Batch&);
  // Logits [samples, vocabulary] fp32 of the last position of each sample; any shape. All ranks call it together. With a
  // cache the batch goes on behind what was read into it before.
  [[nodiscard]] at::Tensor logits(const Batch&, int64_t vocabulary, KvCache* = nullptr);

  // Everything that an identical engine needs to go on. After writing into the values call publish_weights. Of offloaded
  // states the values lie in host memory; they are those of the last step, which is waited for.
  [[nodiscard]] std::vector<OwnedRun> owned_runs() const;
  void publish_weights();

  [[nodiscard]] std::vector<ParameterSpec> parameters() const;  // each once, in the order of the units
  // Of OwnedRun::values of this parameter.
  [[nodiscard]] DType stored_dtype(const ParameterSpec& p) const {
    return p.trainable ? options_.states : options_.compute;
  }
  [[nodiscard]] std::span<const std::string> optimizer_state_names() const { return optimizer_->state_names(); }
  [[nodiscard]] const UnitPlan& plan() const { return plan_; }
  [[nodiscard]] EngineMemory memory() const;
  [[nodiscard]] const std::vector<bool>& backward_reads() const { return backward_reads_; }

 private:
  // Of the block, while those of the next are on their way.
  [[nodiscard]] Weights use_weights(int block, Pass);
  void forward(Context&, Activations&);
  void backward(Context&, Activations&, bool last_micro_batch);
  // The batch where kernels read it, at addresses that stay the same from step to step.
  void take(const Batch&, size_t input);
  [[nodiscard]] Context context(size_t input, Activations&, Mode);
  void accumulate_gradients();  // of all micro-batches that were taken
  [[nodiscard]] int64_t count_valid_tokens(std::span<const Batch>);
  void update();
  void update_on_host();
  [[nodiscard]] std::vector<at::Tensor> kept_memory() const;
  [[nodiscard]] int blocks() const { return static_cast<int>(blocks_.size()); }

  std::vector<std::unique_ptr<Block>> blocks_;
  Zero zero_;
  Communicator& data_;
  EngineOptions options_;
  UnitPlan plan_;
  int first_trainable_;  // block
  std::vector<bool> backward_reads_;
  std::vector<Keep> keeps_;  // [block]
  Arena arena_;
  std::unique_ptr<Stream> compute_, side_;
  std::unique_ptr<Copies> copies_;  // null: nothing is offloaded
  std::vector<at::Tensor> masters_;  // [unit]; undefined: frozen, or the weights are their own
  WeightStore weights_;
  std::unique_ptr<GradStore> grads_;  // null: inference alone
  std::unique_ptr<ActivationOffload> moved_;  // null: all that is kept stays on the device
  Activations activations_;
  std::unique_ptr<Activations> inference_;  // of the last shape asked for in logits()
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<ShardView> shards_;  // [unit]
  at::Tensor norms_;               // of the optimizer: [parameters, 2]
  StepMemory now_;
  StepScalars host_now_;  // of an update on the host, which may still run when `now_` is the next step's
  struct Input {
    Batch batch;         // on the device
    at::Tensor samples;  // batch.samples there
  };
  std::vector<Input> inputs_;               // [micro-batch]
  std::unique_ptr<Repeated> accumulation_;  // null: its work is given to the device call by call
  at::Tensor sums_;  // [2] double: squared norm, loss
  std::unique_ptr<HostStates> host_;  // null: the states lie on the device. Last: its thread ends before what it reads
};

}  // namespace partita
