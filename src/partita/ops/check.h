// Checks that kernels make before touching memory: shapes, dtypes and device type. They read no elements, so the host
// does not wait for the device. cpu/check.h and cuda/check.h fill in the device.
#pragma once
#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include "partita/base/error.h"

namespace partita::internal {

// A tensor of this shape and dtype, on this type of device.
inline void check_layout(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype,
                         at::DeviceType where) {
  PARTITA_CHECK(tensor.defined(), "{} is missing", name);
  PARTITA_CHECK(tensor.device().type() == where, "{} is on {}", name, tensor.device().str());
  PARTITA_CHECK(tensor.sizes() == shape, "{}: shape [{}], expected [{}]", name, fmt::join(tensor.sizes(), ", "),
                fmt::join(shape, ", "));
  PARTITA_CHECK(tensor.scalar_type() == dtype, "{}: dtype {}, expected {}", name, at::toString(tensor.scalar_type()),
                at::toString(dtype));
}

// The same, dense and row-major.
inline void check_dense(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype,
                        at::DeviceType where) {
  check_layout(tensor, name, shape, dtype, where);
  PARTITA_CHECK(tensor.is_contiguous(), "{} is not contiguous", name);
}

// The same, or columns of a wider matrix: the row stride may be larger.
inline void check_columns(const at::Tensor& tensor, const char* name, at::IntArrayRef shape, at::ScalarType dtype,
                          at::DeviceType where) {
  check_layout(tensor, name, shape, dtype, where);
  PARTITA_CHECK(tensor.is_contiguous() || (tensor.stride(1) == 1 && tensor.stride(0) >= tensor.size(1)),
                "{} has strides [{}]: the elements of a row must be contiguous, and rows must not overlap", name,
                fmt::join(tensor.strides(), ", "));
}

// Dtype of activations and weights: fp32, bf16 or fp16.
inline at::ScalarType check_activation(const at::Tensor& tensor, const char* name) {
  PARTITA_CHECK(tensor.defined(), "{} is missing", name);
  const at::ScalarType dtype = tensor.scalar_type();
  PARTITA_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
                "{}: dtype {}, expected fp32, bf16 or fp16", name, at::toString(dtype));
  return dtype;
}

}  // namespace partita::internal
