// A pre-norm transformer layer of Llama (H. Touvron et al., "LLaMA: open and efficient foundation language models",
// 2023; grouped queries: J. Ainslie et al., "GQA", 2023):
//
//   r1 = sum + dropout(branch);                                  h1 = rms norm(r1)
//   r2 = r1 + dropout(output(attention(rope(qkv(h1)))));         h2 = rms norm(r2)
//   returns r2 and down(silu(gate(h2)) * up(h2)), whose dropout the next block applies
#pragma once
#include <memory>

#include "partita/nn/block.h"
#include "partita/nn/layer.h"
#include "partita/nn/linear.h"
#include "partita/ops/attention.h"
#include "partita/ops/rope.h"

namespace partita::internal {

struct LlamaLayerOptions {
  LayerOptions layer;
  Heads heads;
  std::shared_ptr<const RopeTable> rope;  // of the model
  LoraOptions lora;
};

class LlamaLayer final : public Block {
 public:
  explicit LlamaLayer(LlamaLayerOptions options);
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override;
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape&) const override;
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape&) const override;
  [[nodiscard]] BlockTraits traits() const override {
    return {.forward_fills_all = !layer().fp8,
            .fp8_scales = layer().fp8 ? kLinears * kScalesOfLinear : 0,
            .leaves_operands = layer().leaves_operands};
  }
  [[nodiscard]] std::vector<BufferSpec> operands(const Shape&, BlockRecompute, DType,
                                                 const std::vector<bool>& trained) const override;
  Residual forward(Weights, Residual, Context&, Saved&) const override;
  void recompute(Weights, Context&, Saved&) const override;
  ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const override;

 private:
  static constexpr int kLinears = 4;
  enum Parameter : uint8_t { kNorm1, kQkv, kOutput, kNorm2, kGateUp, kDown, kParameters };
  enum Slot : uint8_t {
    kR1,
    kRstd1,
    kH1,
    kQkvOut,
    kAttended,
    kLogSum,
    kR2,
    kRstd2,
    kH2,
    kGateUpOut,
    kActivated,
    kScales,
    kSlots
  };
  enum Scratch : uint8_t { kDH, kDActivated, kDQkv, kDAttended, kWholeKeys, kKeysByRank, kTemporaries };

  [[nodiscard]] int64_t query_width() const { return options_.heads.heads * options_.heads.head_width; }
  [[nodiscard]] int64_t kv_width() const { return options_.heads.kv_heads * options_.heads.head_width; }
  [[nodiscard]] const LayerOptions& layer() const { return options_.layer; }
  [[nodiscard]] static AttentionMemory attention_memory(const Context& context) {
    return {.whole = context.scratch[kWholeKeys], .by_rank = context.scratch[kKeysByRank]};
  }
  // Whether the input of the linear must not be overwritten by the gradient of it.
  [[nodiscard]] bool keeps_input(const Linear&) const;
  // From qkv to the activation: run by forward and by full recomputation.
  void middle(Weights, Context&, Saved&, bool again) const;

  LlamaLayerOptions options_;
  LocalLayer local_;
  LinearIndices places_;  // after the layer's own parameters, slots and scratch
  Linear qkv_, output_, gate_up_, down_;
};

}  // namespace partita::internal
