// A model is a list of blocks (embedding, layers, head with loss), and a block is a set of functions of weights: it
// owns none, they are handed to it. Where the weights come from, where the gradients go and what is kept between
// forward and backward is the engine's affair; that is all that ZeRO, offload and recomputation are.
//
//   Residual x = block.forward(weights, x, context, saved);
//   ...
//   block.recompute(weights, context, saved);                 // fills what forward did not keep, and no more
//   ResidualGrad g = block.backward(weights, g, context, saved, grads);
//
// A parameter belongs to the block that applies it. The bias of a layer's last linear is added by the next block's
// add+norm: that block lists it, by its global name, and its backward makes the gradient.
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "partita/nn/buffers.h"
#include "partita/nn/grads.h"
#include "partita/nn/parameter.h"
#include "partita/ops/step_scalars.h"

namespace partita {

// Of one micro-batch on this rank.
struct Shape {
  int64_t samples = 1, length = 1;
  [[nodiscard]] int64_t rows() const { return samples * length; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Batch {
  at::Tensor tokens, labels, positions;  // [samples, length] int32; labels may be kIgnoredLabel, undefined in inference
  std::vector<int64_t> samples;          // global id of each sample: what its dropout masks are keyed by
  at::Tensor first_keys;                 // undefined, or where each token's document begins in its sample (attention.h)
  [[nodiscard]] Shape shape() const { return {tokens.size(0), tokens.size(1)}; }
};

// The residual stream between blocks is sum + dropout(branch + bias), not yet added: the next block's first kernel adds
// and normalizes in one pass, and knows the bias and the dropout. sum undefined: zero.
struct Residual {
  at::Tensor sum, branch;  // [rows, width]
};

// d/d sum and d/d branch; one tensor twice where there is no dropout.
struct ResidualGrad {
  at::Tensor sum, branch;
  at::Tensor scale = {};  // of branch, measured (ops/fp8.h), or undefined
};

// What a block hands on. The engine owns these three, and blocks overwrite them in turn.
struct OutputBuffers {
  at::Tensor branch, d_sum, d_branch;  // [rows, width]
  at::Tensor scale;                    // [kFp8Scale] fp32, of the gradient of a branch
};

// In the order of Block::parameters(), shaped; in the compute dtype.
using Weights = std::span<const at::Tensor>;

// What forward is for. In training the head makes loss and logits only in backward, chunk by chunk, so that they are
// made once and never all held; in evaluation forward makes the loss; in inference the logits of the last position.
enum class Mode : uint8_t { train, evaluate, infer };

struct KvCache;  // kv_cache.h

struct Context {
  Mode mode = Mode::train;
  const Batch* batch = nullptr;
  const StepScalars* now = nullptr;
  OutputBuffers outputs;
  std::span<const at::Tensor> scratch;  // the block's own scratch(), valid until it returns
  at::Tensor samples;                   // batch->samples on the device: [samples] int64
  at::Tensor loss;                      // [1] double: the head adds its sum over counted tokens
  at::Tensor logits;                    // infer: [samples, vocabulary] fp32, written by the head
  KvCache* cache = nullptr;             // infer: what was read before the batch; layers append to it
  // Of the block's tensors in 8 bits, where scales outlive the micro-batch (ops/fp8.h): [BlockTraits::fp8_scales,
  // kFp8Scale]. Undefined: each tensor is scaled by its own magnitude.
  at::Tensor scales;
  bool scales_known = false;  // by the steps before; false: measured anew, into scales
};

struct BlockTraits {
  BlockKind kind = BlockKind::layer;
  bool backward_reads_weights = true;  // false: no weights are gathered for backward
  bool forward_fills_all = true;       // forward also leaves what it does not keep as recompute would
  int64_t fp8_scales = 0;              // tensors that are quantized to fp8, each with a scale
};

class Block {
 public:
  virtual ~Block() = default;
  // The same list at every call.
  [[nodiscard]] virtual std::vector<ParameterSpec> parameters() const = 0;
  // Pure functions of the shape: they are the memory plan.
  [[nodiscard]] virtual std::vector<BufferSpec> saved(const Shape&) const = 0;
  [[nodiscard]] virtual std::vector<BufferSpec> scratch(const Shape&) const = 0;
  [[nodiscard]] virtual BlockTraits traits() const = 0;

  virtual Residual forward(Weights, Residual, Context&, Saved&) const = 0;
  virtual void recompute(Weights, Context&, Saved&) const = 0;
  virtual ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const = 0;
};

}  // namespace partita
