// Flat buffers of units: parameter views, padding, and poison that exposes reads of unwritten memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "partita/base/dtype.h"
#include "partita/comm/communicator.h"
#include "partita/shard/layout.h"

namespace partita::internal {

// Zeros [count] of a dtype.
[[nodiscard]] at::Tensor flat_zeros(int64_t count, DType, at::Device = at::kCPU);
// The same in memory of the group, into which GPUs of one host can copy. Collective.
[[nodiscard]] at::Tensor shared_zeros(Communicator&, int64_t count, DType, at::Device);
// Shaped views of each parameter of the layout in a buffer of at least layout.count elements.
[[nodiscard]] std::vector<at::Tensor> parameter_views(const Layout&, const at::Tensor& buffer);
// Zeroes the padding, which norms and updates of whole slices include.
void zero_padding(const Layout&, const at::Tensor& buffer);
// Fills with NaN, so that a read before the first write shows up in the loss.
void poison(const at::Tensor& buffer);

}  // namespace partita::internal
