// Checks that CUDA kernels make before touching memory.
#pragma once
#include "partita/base/cuda_error.h"
#include "partita/ops/check.h"

namespace partita::internal::cuda {

// A dense row-major tensor of this shape and dtype.
inline void check_tensor(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  check_dense(tensor, name, shape, dtype, at::kCUDA);
}
inline void check_columns(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  internal::check_columns(tensor, name, shape, dtype, at::kCUDA);
}
inline void check_optional(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  if (tensor.defined()) check_tensor(tensor, name, shape, dtype);
}

}  // namespace partita::internal::cuda
