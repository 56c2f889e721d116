// Linears in 8-bit floating point (P. Micikevicius et al., "FP8 formats for deep learning", 2022), with one scale per
// tensor: E4M3 (values up to 448) for activations and weights, E5M2 (up to 57344) for gradients.
//
//   fp8_measure(x_scale.narrow(0, 0, 1), x);                        // amax of x
//   fp8_quantize(x8, x8_transposed, x_scale, x);                    // both in one pass over x
//   fp8_matmul(y, {x8, x_scale}, {w8, w_scale}, false);             // y = x w^T
//   fp8_matmul(d_x, {d_y8, d_y_scale}, {w8_transposed, w_scale}, false);
//   fp8_matmul(d_w, {d_y8_transposed, d_y_scale}, {x8_transposed, x_scale}, true);
//
// A scale is a few fp32 numbers on the tensor's device, so that the host never waits. kFp8Expected: the amax to scale
// by, either of this tensor (current scaling, measured by the kernel that produced it or by fp8_measure) or from
// previous steps (delayed scaling). kFp8Measured: the amax measured by fp8_quantize. kFp8Inverse: the dequantization
// factor, written by fp8_quantize. Scales are powers of two, so scaling itself never rounds; at worst it loses one
// binade at the lower end of the range.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace partita::internal {

// Elements per scale, and their indices. cuBLASLt requires the inverse to be 16-byte aligned.
inline constexpr int64_t kFp8Scale = 8, kFp8Expected = 0, kFp8Measured = 1, kFp8Inverse = 4;

// Extents of fp8 matmuls are multiples of this.
inline constexpr int64_t kFp8Quantum = 16;

// Whether all three matmuls of a linear can run in fp8: x [rows, in], w [out, in], each extent a multiple of 16.
[[nodiscard]] bool fp8_fits(int64_t rows, int64_t in, int64_t out);

// The factor applied before rounding to the format: the largest power of two that keeps `amax` in range, clamped to
// 2^-126 .. 2^126; 1 for amax 0. NaN for infinite or NaN amax, so that all values and the loss become NaN and the step
// is skipped.
[[nodiscard]] float fp8_scale(float amax, at::ScalarType format);

// Error: a GPU without fp8 matmuls.
void check_fp8_device(at::Device);

// amax [1] fp32 = max(amax, |x|) over x, fp32, bf16 or fp16; NaN exceeds all values. Independent of the order of
// reduction.
void fp8_measure(at::Tensor amax, at::Tensor x);

// Quantizes x [R, C] bf16 or fp16: scales by fp8_scale(scale[0]), rounds to nearest even and saturates. Writes rows [R,
// C] and the transposed columns [C, R], both at::kFloat8_e4m3fn or both at::kFloat8_e5m2; one may be undefined.
// scale[kFp8Inverse] = 1 / fp8_scale(scale[0]). measure: also fp8_measure(scale[kFp8Measured], x) in the same pass. R
// and C are multiples of 16.
void fp8_quantize(at::Tensor rows, at::Tensor columns, at::Tensor scale, at::Tensor x, bool measure = false);

struct Fp8 {
  at::Tensor values;  // [rows, k]
  at::Tensor scale;   // [kFp8Scale]
};
// out [m, n] bf16, fp16 or fp32 (+)= a [m, k] b [n, k]^T (+ bias [n] in out's dtype, if defined; not with accumulate),
// accumulated in fp32 (on GPUs with the lower precision of fast accumulation). At most one of a and b is E5M2. m, n and
// k are multiples of 16.
void fp8_matmul(at::Tensor out, const Fp8& a, const Fp8& b, bool accumulate, at::Tensor bias = {});

}  // namespace partita::internal
