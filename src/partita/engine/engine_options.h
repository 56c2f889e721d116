// What an engine is made from, what a step is given, and what comes out of it.
//
//   const EngineOptions options{.shape = {.samples = 8, .length = 1024}, .width = 768, .compute = DType::bf16};
//   Engine engine(std::move(blocks), zero, data, options);
//   StepResult r = engine.step(batches, {.step = 0, .update = 0, .learning_rate = 6e-4F, .clip = 1});
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/device/copies.h"
#include "partita/engine/parameter_options.h"
#include "partita/engine/step_plan.h"
#include "partita/nn/block.h"
#include "partita/nn/buffers.h"
#include "partita/nn/parameter.h"
#include "partita/optim/optimizer_options.h"

namespace partita {

// What lies in host memory instead of the device's. On the CPU the same copies are made, within its own memory.
struct Offload {
  bool optimizer = false;  // master weights, optimizer states and gradients, updated by the host
  int activations = 0;     // what so many layers, the first, keep from forward to backward
  std::function<std::unique_ptr<internal::Copies>()> copies;  // who makes the copies; empty: make_copies of the device
};

struct EngineOptions {
  Shape shape;                  // of a micro-batch in training and evaluation
  int micro_batches = 1;        // a step, on this rank
  int64_t width = 0;            // of the residual stream
  DType compute = DType::fp32;  // of weights and activations in forward and backward: fp32, bf16 or fp16
  // Of master weights and optimizer states. bf16, with compute bf16: no master weights, and updates round
  // stochastically.
  DType states = DType::fp32;
  bool fp32_gradients = false;    // also where they need not be: nothing is added to them but once, by the ranks
  Keep keep = Keep::all;          // entry: full recomputation
  int full_recompute_layers = 0;  // of the first so many layers the entry alone is kept
  int layers_per_unit = 0;        // gathered and reduced together; 0: automatic
  std::vector<internal::Action> actions;  // of a step; empty: one_stage(micro_batches)
  at::Device device = at::kCPU;
  OptimizerOptions optimizer;
  std::function<bool(const ParameterSpec&)> frozen;  // empty: everything is trained
  Offload offload;
  bool delayed_scales = false;  // of tensors in 8 bits: by what the steps before measured (amax_history.h)
  uint64_t seed = 0;            // of dropout
  bool graph = false;           // forward and backward are recorded once and repeated as a whole: for one rank alone
  bool training = true;         // false: no gradients and optimizer states; step() may not be called
  bool poison = false;          // evicted weight slots and fresh gradient buffers are filled with NaN
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
struct EngineMemory : internal::ParameterMemory {
  int64_t activations = 0, temporaries = 0;
  int64_t shared = 0;  // of the gradients: in the memory of activations, not in memory of their own

  friend bool operator==(const EngineMemory&, const EngineMemory&) = default;
};

}  // namespace partita
