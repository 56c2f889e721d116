// Where a block's backward puts gradients: the interface between blocks, which make them, and the store, which reduces
// them.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita {

class Grads {
 public:
  virtual ~Grads() = default;
  // Of a parameter of the block, by its place in Block::parameters(): norms, biases, embeddings, written by their own
  // kernels at once. Without a gradient where the parameter is frozen.
  virtual Target target(int parameter) = 0;
  // dW (+)= scale * d_y^T x, for d_y [rows, out] and x [rows, in]; nothing where it is frozen.
  virtual void matmul(int parameter, at::Tensor d_y, at::Tensor x, float scale = 1) = 0;
};

}  // namespace partita
