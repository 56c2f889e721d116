// Token embedding, plus learned positions if the model has them: the first block. Its output is a branch with an
// undefined sum, so that the add of the first layer applies the embedding dropout.
#pragma once
#include "partita/nn/block.h"

namespace partita::internal {

struct EmbeddingOptions {
  int64_t vocabulary;
  int64_t positions;  // learned positions; 0: none
  int64_t width;
  double init_std = 0.02;
  DType dtype = DType::fp32;
};

class Embedding final : public Block {
 public:
  explicit Embedding(EmbeddingOptions options) : options_(options) {}
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override;
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape&) const override { return {}; }
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape&) const override { return {}; }
  [[nodiscard]] BlockTraits traits() const override {
    return {.kind = BlockKind::embedding, .backward_reads_weights = false};
  }
  Residual forward(Weights, Residual, Context&, Saved&) const override;
  void recompute(Weights, Context&, Saved&) const override {}
  ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const override;

 private:
  enum Parameter : uint8_t { kToken, kPosition };
  EmbeddingOptions options_;
};

}  // namespace partita::internal
