// Products in fp32, and products of half precision by way of fp32: blocks of the factors are widened, multiplied by a
// library's fp32 kernels, summed in fp32 and rounded once. On CPUs without instructions for bf16 that is several times
// faster than what libraries make of bf16 there; few CPUs have products of fp16.
//
//   wide_matmul(y, x, w.t(), /*accumulate=*/false, 1);
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// y (+)= scale * a b, all fp32: dense, or transposed views of dense matrices; rows of y may be apart.
void matmul_fp32(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale);

// y (+)= scale * a b; a and b are bf16 or fp16, by rows or by columns, which may be apart; y has their dtype or is
// fp32. Memory for three blocks is kept by the thread.
void wide_matmul(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale);

}  // namespace partita::internal
