// Options of an engine, and the inputs and results of a step.
//
//   const EngineOptions options{.shape = {.samples = 8, .length = 1024}, .width = 768, .compute = DType::bf16};
//   Engine engine(std::move(blocks), zero, data, options);
//   StepResult r = engine.step(batches, {.step = 0, .update = 0, .learning_rate = 6e-4F, .clip = 1});
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "partita/base/context_split.h"
#include "partita/base/dtype.h"
#include "partita/engine/offload.h"
#include "partita/engine/parameter_options.h"
#include "partita/engine/pipeline_stage.h"
#include "partita/engine/step_plan.h"
#include "partita/nn/block.h"
#include "partita/nn/buffers.h"
#include "partita/nn/parameter.h"
#include "partita/nn/split.h"
#include "partita/optim/optimizer_options.h"

namespace partita {

struct EngineOptions {
  Shape shape;                  // of a training or evaluation micro-batch: of its pieces on this rank
  int micro_batches = 1;        // per step, on this rank
  int64_t width = 0;            // of the residual stream
  DType compute = DType::fp32;  // weights and activations in forward and backward: fp32, bf16 or fp16
  // Master weights and optimizer states. bf16 with bf16 compute: no master weights; updates round stochastically.
  DType states = DType::fp32;
  bool fp32_gradients = false;  // even where half precision suffices: no accumulation but the reduction over ranks
  Recompute recompute = Recompute::none;  // in training
  int full_recompute_layers = 0;          // full recomputation for the first N layers
  int layers_per_unit = 0;                // gathered and reduced together; 0: automatic
  std::vector<internal::Action> actions;  // of a step; empty: one_stage(micro_batches)
  TensorSplit tensor;                     // this rank's place in Zero::tensor, as in the blocks
  ContextSplit context;                   // this rank's place in Zero::context, as in the blocks
  PipelineStage pipeline;                 // this rank's place in Zero::pipeline; with one, it determines the actions
  // Of the whole model, each once, where this rank has the blocks of a stage only; empty: those of the blocks.
  std::vector<ParameterSpec> model_parameters;
  at::Device device = at::kCPU;
  OptimizerOptions optimizer;
  std::function<bool(const ParameterSpec&)> frozen;  // empty: everything is trained
  Offload offload;
  bool delayed_scales = false;  // fp8 scales from previous steps (amax_history.h)
  uint64_t seed = 0;            // dropout seed
  bool graph = false;  // record forward and backward as a CUDA graph and replay it; one data-parallel rank, no pipeline
  bool training = true;         // false: no gradients or optimizer states; step() must not be called
  bool poison = false;          // fill evicted weight slots and fresh gradient buffers with NaN
  bool check_messages = false;  // between pipeline stages: compare what arrives with what was expected
};

struct StepInput {
  int64_t step = 0;    // 0 for the first
  int64_t update = 0;  // step less the skipped ones
  double learning_rate = 0;
  float clip = 0;        // maximum gradient norm; 0: no clipping
  float loss_scale = 1;  // keeps fp16 gradients from underflowing
  // Gradient norm of the last step that updated, by which early updates clip; 0: there is none, so this step's updates
  // wait for its own norm.
  double previous_norm = 0;
};

// Equal on all ranks.
struct StepResult {
  double loss = 0;       // mean over the valid tokens of all ranks and micro-batches
  double grad_norm = 0;  // before clipping
  int64_t tokens = 0;    // valid tokens
  bool skipped = false;  // the norm was not finite on some rank, so no rank updated
};

// Equal on all ranks.
struct EvalResult {
  double loss_sum = 0;
  int64_t tokens = 0;
};

// Bytes on this rank, by owner.
struct EngineMemory : internal::ParameterMemory {
  int64_t activations = 0, temporaries = 0;
  int64_t shared = 0;  // part of gradients: placed in activation memory, not allocated separately

  friend bool operator==(const EngineMemory&, const EngineMemory&) = default;
};

}  // namespace partita
