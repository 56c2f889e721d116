// Where a kernel puts the gradient of a vector (bias, norm weight, embedding): fp32, overwritten by its first writer
// since the last reduction and added to by later ones, so that nobody has to fill it with zeros.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita {

struct Target {
  at::Tensor gradient;      // undefined: not wanted (frozen), nothing is computed
  bool accumulate = false;  // false: overwrite, whatever is there (it may be NaN)
};

}  // namespace partita
