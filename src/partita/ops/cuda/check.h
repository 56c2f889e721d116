// Checks that every kernel on a device makes before it touches memory: shapes, dtypes and where the tensors lie. They read
// no tensor's elements, so the host waits for nothing.
#pragma once
#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include "partita/base/cuda_error.h"
#include "partita/base/error.h"

namespace partita::cuda {

// A tensor on a device of that shape and dtype.
inline void check_form(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  PARTITA_CHECK(tensor.defined(), "{} is missing", name);
  PARTITA_CHECK(tensor.is_cuda(), "{} is on {}, expected a CUDA device", name, tensor.device().str());
  PARTITA_CHECK(tensor.sizes() == shape, "{}: shape [{}], expected [{}]", name, fmt::join(tensor.sizes(), ", "),
                fmt::join(shape, ", "));
  PARTITA_CHECK(tensor.scalar_type() == dtype, "{}: dtype {}, expected {}", name, at::toString(tensor.scalar_type()),
                at::toString(dtype));
}

// The same, dense and row-major.
inline void check_tensor(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  check_form(tensor, name, shape, dtype);
  PARTITA_CHECK(tensor.is_contiguous(), "{} is not contiguous", name);
}

// The same, or columns of a wider matrix: rows may lie further apart.
inline void check_columns(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  check_form(tensor, name, shape, dtype);
  PARTITA_CHECK(tensor.is_contiguous() || (tensor.stride(1) == 1 && tensor.stride(0) >= tensor.size(1)),
                "{} has strides [{}]: the elements of a row must lie side by side, and rows must not overlap", name,
                fmt::join(tensor.strides(), ", "));
}

inline void check_optional(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype) {
  if (tensor.defined()) check_tensor(tensor, name, shape, dtype);
}

// Activations and weights: fp32, bf16 or fp16.
inline at::ScalarType check_activation(const at::Tensor& tensor, const char* name) {
  PARTITA_CHECK(tensor.defined(), "{} is missing", name);
  const at::ScalarType dtype = tensor.scalar_type();
  PARTITA_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
                "{}: dtype {}, expected fp32, bf16 or fp16", name, at::toString(dtype));
  return dtype;
}

}  // namespace partita::cuda
