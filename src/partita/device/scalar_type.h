// Conversion between DType and torch's scalar types.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/dtype.h"

namespace partita::internal {

[[nodiscard]] at::ScalarType scalar_type(DType);
[[nodiscard]] DType dtype_of(const at::Tensor&);  // error: an unsupported type, by name

}  // namespace partita::internal
