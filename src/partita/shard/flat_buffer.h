// Flat buffers of units: views of single parameters, padding, and the poison that shows reads of what nobody wrote.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/base/dtype.h"
#include "partita/shard/layout.h"

namespace partita::internal {

// [count] of a dtype, zero.
[[nodiscard]] at::Tensor flat_zeros(int64_t count, DType, at::Device = at::kCPU);
// Views of each parameter of the layout, shaped, in a buffer of at least layout.count elements.
[[nodiscard]] std::vector<at::Tensor> parameter_views(const Layout&, const at::Tensor& buffer);
// Zeroes what belongs to no parameter: sums over slices and updates of slices run over it.
void zero_padding(const Layout&, const at::Tensor& buffer);
// Fills with NaN: whoever reads it before writing shows it in the loss.
void poison(const at::Tensor& buffer);

}  // namespace partita::internal
