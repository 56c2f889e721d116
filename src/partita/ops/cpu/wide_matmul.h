// Matmuls in fp32, and half-precision matmuls through fp32: blocks of the operands are widened, multiplied with a
// library's fp32 kernels, accumulated in fp32 and rounded once. On CPUs without bf16 instructions this is several times
// faster than the libraries' own bf16; few CPUs have fp16 matmuls.
//
//   wide_matmul(y, x, w.t(), /*accumulate=*/false, 1);
#pragma once
#include <ATen/core/Tensor.h>

namespace partita::internal {

// y (+)= scale * a b, all fp32: dense, or transposed views of dense matrices; y may have a larger row stride.
void matmul_fp32(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale);

// y (+)= scale * a b; a and b are bf16 or fp16, row- or column-major, possibly with a larger leading dimension; y has
// their dtype or is fp32. Each thread keeps memory for three blocks.
void wide_matmul(const at::Tensor& y, const at::Tensor& a, const at::Tensor& b, bool accumulate, float scale);

}  // namespace partita::internal
