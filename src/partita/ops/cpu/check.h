// Checks that CPU kernels make before touching memory.
#pragma once
#include "partita/ops/check.h"

namespace partita::internal {

// A dense row-major tensor of this shape and dtype.
inline void check_tensor(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  check_dense(tensor, name, shape, dtype, at::kCPU);
}
inline void check_columns(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  internal::check_columns(tensor, name, shape, dtype, at::kCPU);
}
inline void check_optional(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  if (tensor.defined()) check_tensor(tensor, name, shape, dtype);
}

// Checks that all row indices [samples, length] int32 are in 0..limit-1.
inline void check_indices(const at::Tensor& indices, const char* name, int64_t limit) {
  const int32_t* index = indices.const_data_ptr<int32_t>();
  for (int64_t i = 0; i < indices.numel(); ++i)
    if (index[i] < 0 || index[i] >= limit)
      fail("{} {} in sample {} at place {} is outside 0..{}: the data does not belong to this model", name, index[i],
           i / indices.size(1), i % indices.size(1), limit - 1);
}

}  // namespace partita::internal
