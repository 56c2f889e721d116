// A pre-norm transformer layer of GPT-2 (A. Radford et al., "Language models are unsupervised multitask learners",
// 2019):
//
//   r1 = sum + dropout(branch + bias of the previous layer);  h1 = norm(r1)
//   r2 = r1 + dropout(output(attention(qkv(h1))));            h2 = norm(r2)
//   returns r2 and down(gelu(up(h2))), whose bias and dropout the next block applies
#pragma once
#include "partita/nn/block.h"
#include "partita/nn/layer.h"
#include "partita/nn/linear.h"
#include "partita/ops/attention.h"
#include "partita/ops/norm.h"

namespace partita::internal {

struct Gpt2LayerOptions {
  LayerOptions layer;
  int64_t heads;
  LoraOptions lora;
};

// Name of the bias that the block after layer `index` adds.
[[nodiscard]] std::string down_bias_name(int64_t index);

class Gpt2Layer final : public Block {
 public:
  explicit Gpt2Layer(Gpt2LayerOptions options);
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override;
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape&) const override;
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape&) const override;
  [[nodiscard]] BlockTraits traits() const override {
    return {.forward_fills_all = !layer().fp8,
            .fp8_scales = layer().fp8 ? kLinears * kScalesOfLinear : 0,
            .leaves_operands = true};
  }
  [[nodiscard]] std::vector<BufferSpec> operands(const Shape&, BlockRecompute, DType,
                                                 const std::vector<bool>& trained) const override;
  Residual forward(Weights, Residual, Context&, Saved&) const override;
  void recompute(Weights, Context&, Saved&) const override;
  ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const override;

 private:
  static constexpr int kLinears = 4;
  enum Parameter : uint8_t {
    kNorm1,
    kNorm1Bias,
    kQkv,
    kQkvBias,
    kOutput,
    kOutputBias,
    kNorm2,
    kNorm2Bias,
    kUp,
    kUpBias,
    kDown,
    kEntryBias  // not in layer 0
  };
  enum Slot : uint8_t {
    kR1,
    kMean1,
    kRstd1,
    kH1,
    kQkvOut,
    kAttended,
    kLogSum,
    kR2,
    kMean2,
    kRstd2,
    kH2,
    kUpOut,
    kActivated,
    kScales,
    kSlots
  };
  // kBranch is read before the others are written.
  enum Scratch : uint8_t { kBranch, kWide, kDQkv, kWholeKeys, kKeysByRank, kTemporaries };

  [[nodiscard]] Heads all_heads() const { return {options_.heads, options_.heads, layer().width / options_.heads}; }
  [[nodiscard]] const LayerOptions& layer() const { return options_.layer; }
  // Scratch for a branch, or the gradient of a norm: [stream rows, width].
  [[nodiscard]] at::Tensor branch(const Context&) const;
  [[nodiscard]] static AttentionMemory attention_memory(const Context& context) {
    return {.whole = context.scratch[kWholeKeys], .by_rank = context.scratch[kKeysByRank]};
  }
  // From qkv to the activation: run by forward and by full recomputation.
  void middle(Weights, Context&, Saved&, bool again) const;
  // wide, the gradient of the activation's output, becomes that of its input; and the gradient of its bias, to which a
  // rank with all of the MLP adds the terms of its part of the rows.
  void d_gelu(const at::Tensor& wide, Context&, Saved&, Grads&) const;
  // The up projection and the activation.
  void activate(Weights, Context&, Saved&, bool again) const;

  Gpt2LayerOptions options_;
  LocalLayer local_;
  LinearIndices places_;  // after the layer's own parameters, slots and scratch
  Linear qkv_, output_, up_, down_;
};

}  // namespace partita::internal
