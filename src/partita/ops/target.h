// Where a kernel writes the gradient of a vector (bias, norm weight, embedding): fp32, overwritten by the first writer
// after a reduction and accumulated into by later ones, so that no zero fill is needed.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita {

struct Target {
  at::Tensor gradient;      // undefined: frozen, nothing is computed
  bool accumulate = false;  // false: overwrite the previous contents (possibly NaN)
};

}  // namespace partita
