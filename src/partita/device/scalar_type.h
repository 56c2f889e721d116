// Conversion between DType and torch's scalar types.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "partita/base/dtype.h"

namespace partita::internal {

[[nodiscard]] at::ScalarType scalar_type(DType);
[[nodiscard]] std::optional<DType> find_dtype(at::ScalarType);  // none: an unsupported type
[[nodiscard]] DType dtype_of(const at::Tensor&);                // error: an unsupported type, by name

}  // namespace partita::internal
