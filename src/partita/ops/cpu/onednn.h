// A function exported by libtorch_cpu without a header.
#pragma once
#include <ATen/core/Tensor.h>

namespace at::native {

// result = alpha * a b + beta * result with oneDNN. Throws if ATen does not use oneDNN for the dtype on this CPU; check
// cpu/products.h first.
TORCH_API void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result, float beta, float alpha);

}  // namespace at::native
