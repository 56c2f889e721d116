// Weight gradients that are computed later than input gradients, as zero-bubble pipelines do (P. Qi et al., "Zero
// bubble pipeline parallelism", 2024): the operands of their products, which are open in between.
//
//   OpenGradients open(plan.open_bytes, blocks, device);
//   g = block.backward(w, g, context, saved, *open.collect(*store.open(b), action.open, b, &saved));
//   ...                                                                // input gradients are complete
//   open.compute(action.open, b, *store.open(b));
//
// Gradients of vectors and tables, and those of fp8 matmuls, are computed at once.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "partita/nn/buffers.h"
#include "partita/nn/grads.h"

namespace partita::internal {

class OpenGradients {
 public:
  // bytes[set * blocks + block]: for the operands of one micro-batch, Block::operands.
  OpenGradients(std::span<const int64_t> bytes, int blocks, at::Device);

  // Keeps the products of the block and passes everything else on to `now`, which must outlive it. Operands are copied,
  // but for those in kept buffers of `stays`, which the block leaves there; null: none.
  [[nodiscard]] std::unique_ptr<Grads> collect(Grads& now, int set, int block, const Saved* stays);
  // Computes the products that were kept, in their order.
  void compute(int set, int block, Grads& now);

  [[nodiscard]] int64_t bytes() const;

 private:
  class Collected;
  struct Product {
    int parameter;
    at::Tensor d_y, x;
    float scale;
  };
  struct Products {
    at::Tensor memory;  // bytes
    int64_t used = 0;
    std::vector<Product> list;
  };
  [[nodiscard]] Products& products(int set, int block) {
    return products_[static_cast<size_t>(set) * static_cast<size_t>(blocks_) + static_cast<size_t>(block)];
  }

  int blocks_;
  std::vector<Products> products_;  // [set * blocks + block]
};

}  // namespace partita::internal
