// Our element types as torch's.
#pragma once
#include <ATen/core/Tensor.h>

#include "partita/base/dtype.h"

namespace partita::internal {

[[nodiscard]] at::ScalarType scalar_type(DType);
[[nodiscard]] DType dtype_of(const at::Tensor&);  // error: names a type that we do not have

}  // namespace partita::internal
