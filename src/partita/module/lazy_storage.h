// Tensors in host memory that have no memory until their values are needed: their storage keeps the operations that
// write them (recorded_values.h). They carry the dispatch key of operand_key.h, so that lazy_operations.h sees what
// reads them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "partita/module/recorded_values.h"

namespace partita::internal {

[[nodiscard]] at::Tensor make_lazy(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType);
// Whether the tensor's storage has no memory yet.
[[nodiscard]] bool is_lazy(const at::Tensor&);
// Whether any tensor of this process may be lazy.
[[nodiscard]] bool any_lazy();

// Of a lazy tensor's storage. One thread at a time records, or makes real.
[[nodiscard]] RecordedValues recorded(const at::Tensor&);
void record(const at::Tensor&, RecordedWrite);
// Gives a lazy tensor's storage its memory and values; nothing happens to others.
void make_real(const at::Tensor&);

// The values in contiguous memory of their own. A lazy tensor stays so; without `needed`, its values are not replayed,
// and the memory is for others.
[[nodiscard]] at::Tensor copy_of_values(const at::Tensor&, bool needed = true);
// tensor.copy_(values), whose memory is nobody else's: a lazy storage that the tensor covers takes it.
void take_values(const at::Tensor& tensor, at::Tensor&& values);

}  // namespace partita::internal
