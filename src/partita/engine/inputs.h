// Input batches in device memory, at addresses that stay fixed from step to step.
//
//   Inputs inputs(device);
//   const bool moved = inputs.take(batch, 0);     // true the first time, and whenever the shape changes
//   inputs[0].batch.tokens, inputs[0].samples
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "partita/nn/block.h"

namespace partita::internal {

class Inputs {
 public:
  struct Input {
    Batch batch;         // on the device
    at::Tensor samples;  // batch.samples there
  };
  explicit Inputs(at::Device device) : device_(device) {}

  // Copies the batch to input `index`. true: its addresses changed, so recorded graphs are invalid.
  [[nodiscard]] bool take(const Batch&, size_t index);
  // The last batch copied to `index`.
  [[nodiscard]] const Input& operator[](size_t index) const { return inputs_[index]; }

 private:
  at::Device device_;
  std::vector<Input> inputs_;
};

}  // namespace partita::internal
