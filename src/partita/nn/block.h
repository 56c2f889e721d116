// A model is a list of blocks (embedding, layers, head with loss). A block is a set of pure functions of weights and
// owns none. The engine decides where weights come from, where gradients go, and what is saved between forward and
// backward: ZeRO, offload and recomputation live entirely there.
//
//   x = block.forward(weights, x, context, saved);
//   ...
//   block.recompute(weights, context, saved);                 // fills exactly what forward did not save
//   g = block.backward(weights, g, context, saved, grads);
//
// A parameter belongs to the block that applies it. The bias of a layer's last linear is added by the add+norm of the
// next block, so that block lists it (by its global name) and computes its gradient.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "partita/nn/buffers.h"
#include "partita/nn/grads.h"
#include "partita/nn/parameter.h"
#include "partita/ops/step_scalars.h"

namespace partita {

// One micro-batch on this rank, which with context parallelism has its pieces of each sample (context_parallel.h).
struct Shape {
  int64_t samples = 1, length = 1;
  [[nodiscard]] int64_t rows() const { return samples * length; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Batch {
  at::Tensor tokens, labels, positions;  // [samples, length] int32; labels may be kIgnoredLabel, undefined in inference
  std::vector<int64_t> samples;          // global id of each sample, which keys its dropout masks
  at::Tensor first_keys;  // start of each token's document in its whole sample (attention.h), or undefined
  [[nodiscard]] Shape shape() const { return {tokens.size(0), tokens.size(1)}; }
};

// The residual stream between blocks is sum + dropout(branch + bias), not yet added: the first kernel of the next
// block, which knows the bias and the dropout, adds and normalizes in one pass. sum undefined: zero. So a block of
// one's own adds the bias of the layer before it, which it lists by name, and applies that layer's dropout: neither
// exists in Llama without dropout, where x = sum + branch.
struct Residual {
  at::Tensor sum, branch;  // [stream rows, width]: with sequence parallelism, a part of the rows (nn/split.h)
};

// d/d sum and d/d branch; the same tensor twice without dropout.
struct ResidualGrad {
  at::Tensor sum, branch;
  at::Tensor scale = {};  // fp8 scale of branch, amax measured (ops/fp8.h); or undefined
};

// Output memory owned by the engine and reused by every block: what a block is given usually is in the same memory, so
// that it reads the incoming branch before it writes `branch`, and the incoming d_sum and d_branch before d_sum and
// d_branch. What it returns is in these buffers, or in memory that it saved.
struct OutputBuffers {
  at::Tensor branch, d_sum, d_branch;  // [stream rows, width]
  at::Tensor scale;                    // [kFp8Scale] fp32, for the gradient of a branch
};

// Shaped, in the compute dtype, in the order of Block::parameters().
using Weights = std::span<const at::Tensor>;

// Purpose of the forward pass. train: the head computes logits and loss only in backward, chunk by chunk, so that they
// are computed once and never stored whole; evaluate: forward computes the loss; infer: logits of the last position.
enum class Mode : uint8_t { train, evaluate, infer };

struct KvCache;         // kv_cache.h
class TensorParallel;   // tensor_parallel.h
class ContextParallel;  // context_parallel.h

struct Context {
  Mode mode = Mode::train;
  const Batch* batch = nullptr;
  const StepScalars* now = nullptr;
  const TensorParallel* tensor = nullptr;     // null: this rank computes whole blocks
  const ContextParallel* sequence = nullptr;  // null: this rank has whole sequences
  OutputBuffers outputs;
  std::span<const at::Tensor> scratch;  // the block's own scratch(), valid until it returns
  at::Tensor samples;                   // batch->samples on the device: [samples] int64
  at::Tensor loss;                      // [1] double: the head adds the loss summed over valid tokens
  at::Tensor logits;                    // infer: [samples, vocabulary] fp32, written by the head
  KvCache* cache = nullptr;             // infer: past keys and values; layers append to it
  // Delayed scaling: scales of the block's fp8 tensors (ops/fp8.h), [BlockTraits::fp8_scales, kFp8Scale], which outlive
  // the micro-batch. Undefined: current scaling.
  at::Tensor scales;
  bool scales_known = false;  // from previous steps; false: measured before use, into scales
};

struct BlockTraits {
  BlockKind kind = BlockKind::layer;
  bool backward_reads_weights = true;  // false: backward gathers no weights
  bool forward_fills_all = true;       // buffers that are not saved still hold after forward what recompute would write
  int64_t fp8_scales = 0;              // tensors quantized to fp8, each with a scale
  // What backward passes to Grads::matmul from buffers that are saved stays there until the micro-batch's end.
  bool leaves_operands = false;
};

class Block {
 public:
  virtual ~Block() = default;
  // Returns the same list at every call.
  [[nodiscard]] virtual std::vector<ParameterSpec> parameters() const = 0;
  // Pure functions of the shape, which define the memory plan.
  [[nodiscard]] virtual std::vector<BufferSpec> saved(const Shape&) const = 0;
  [[nodiscard]] virtual std::vector<BufferSpec> scratch(const Shape&) const = 0;
  [[nodiscard]] virtual BlockTraits traits() const = 0;
  // Where weight gradients are computed later than input gradients: memory for the operands that
  // backward passes to Grads::matmul and does not leave in what it saved (BlockTraits::leaves_operands). Default: for
  // both operands of every matrix, in any order. trained[parameter]; dtype: of compute.
  [[nodiscard]] virtual std::vector<BufferSpec> operands(const Shape&, BlockRecompute, DType,
                                                         const std::vector<bool>& trained) const;

  virtual Residual forward(Weights, Residual, Context&, Saved&) const = 0;
  virtual void recompute(Weights, Context&, Saved&) const = 0;
  virtual ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const = 0;
};

}  // namespace partita
