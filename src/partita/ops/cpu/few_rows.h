// Linear layer for a few rows, as in generation, where reading the weights once dominates: they are widened while
// loading, and nothing but the result is written.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// For more rows a blocked matmul is faster.
constexpr int64_t kFewRows = 4;

// y [N, out] (+)= scale * x [N, in] w^T [in, out], bf16 or fp16, accumulated in fp32 and rounded once. x and w are
// dense; y may have a larger row stride.
void linear_few_rows(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool accumulate, float scale);

}  // namespace partita::internal
