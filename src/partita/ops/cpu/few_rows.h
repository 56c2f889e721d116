// The product of a linear layer for a few rows, as in generation: its time is that of reading the weights once. They
// are widened as they are loaded, and nothing is written but the result.
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// For more rows a product of blocks is faster.
constexpr int64_t kFewRows = 4;

// y [N, out] (+)= scale * x [N, in] w^T [in, out], bf16 or fp16, summed in fp32, rounded once. x and w
// are dense, rows of y may be apart.
void linear_few_rows(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, bool accumulate, float scale);

}  // namespace partita::internal
