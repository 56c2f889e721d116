// Where a block's backward writes gradients: the interface between blocks and the store that reduces the gradients.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/ops/target.h"

namespace partita {

class Grads {
 public:
  virtual ~Grads() = default;
  // Target of a parameter, given by its index in Block::parameters(). For norms, biases and embeddings, whose kernels
  // write gradients directly. The gradient is undefined if the parameter is frozen.
  virtual Target target(int parameter) = 0;
  [[nodiscard]] virtual bool trains(int parameter) const = 0;  // false: frozen
  // dW (+)= scale * d_y^T x, for d_y [rows, out] and x [rows, in]; a no-op for frozen parameters. It may be computed
  // later than backward returns (Block::operands).
  virtual void matmul(int parameter, at::Tensor d_y, at::Tensor x, float scale = 1) = 0;
};

}  // namespace partita
