// A function of libtorch_cpu that is exported without a header.
#pragma once
#include <ATen/core/Tensor.h>

namespace at::native {

// result = alpha * a b + beta * result by oneDNN. Throws where ATen does not take the dtype to oneDNN on this CPU: ask
// cpu/products.h before.
TORCH_API void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& result, float beta, float alpha);

}  // namespace at::native
