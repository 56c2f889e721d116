// The order of the temporaries that the linears of a layer share (add_linear_scratch). For linear*.cc.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/nn/linear.h"

namespace partita::internal {

// After the layer's own scratch: buffers of adapters, if there are any; those of sequence parallelism; those of fp8.
enum AdapterScratch : uint8_t { kLow, kWide, kAdapterScratch };
enum RowScratch : uint8_t { kPartial, kRowScratch };

[[nodiscard]] inline int adapter_scratch(const LoraOptions& lora) { return lora.rank > 0 ? kAdapterScratch : 0; }
[[nodiscard]] inline int row_scratch_count(const TensorSplit& tensor) { return tensor.sequence ? kRowScratch : 0; }

// The first elements of a temporary as [rows, columns].
[[nodiscard]] inline at::Tensor shaped(const at::Tensor& memory, int64_t rows, int64_t columns) {
  return memory.view(-1).narrow(0, 0, rows * columns).view({rows, columns});
}

}  // namespace partita::internal
