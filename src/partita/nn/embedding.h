// Token embedding, plus learned positions if the model has them: the first block. Its output is a branch with an
// undefined sum, so that the add of the first layer applies the embedding dropout.
//
// Tensor parallelism: each rank has some rows of both tables. Tokens and positions in other ranks' rows are zero, and
// the sum over ranks is the embedding. Or each rank has both tables (EmbeddingOptions::divided is false), looks up its
// rows of the residual stream, and adds the gradients of an equal part of the rows.
#pragma once
#include "partita/nn/block.h"
#include "partita/nn/split.h"
#include "partita/ops/embedding.h"

namespace partita::internal {

struct EmbeddingOptions {
  int64_t vocabulary;
  int64_t positions;  // learned positions; 0: none
  int64_t width;
  double init_std = 0.02;
  DType dtype = DType::fp32;
  TensorSplit tensor;
  bool divided = true;  // the tables, over the tensor-parallel ranks
};

class Embedding final : public Block {
 public:
  explicit Embedding(EmbeddingOptions options) : options_(options) {}
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override;
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape&) const override { return {}; }
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape&) const override;
  [[nodiscard]] BlockTraits traits() const override {
    return {.kind = BlockKind::embedding, .backward_reads_weights = false};
  }
  Residual forward(Weights, Residual, Context&, Saved&) const override;
  void recompute(Weights, Context&, Saved&) const override {}
  ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const override;

 private:
  enum Parameter : uint8_t { kToken, kPosition };
  enum Scratch : uint8_t { kAllRows };  // [rows, width], with sequence parallelism
  [[nodiscard]] TableRows token_rows() const;
  [[nodiscard]] TableRows position_rows() const;
  EmbeddingOptions options_;
};

}  // namespace partita::internal
