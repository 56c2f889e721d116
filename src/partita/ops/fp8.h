// Products of linears in 8-bit floating point (P. Micikevicius et al., "FP8 formats for deep learning", 2022), with a
// scale a tensor: E4M3 (values up to 448) for activations and weights, E5M2 (up to 57344) for gradients.
//
//   fp8_measure(x_scale.narrow(0, 0, 1), x);                        // the largest magnitude of x
//   fp8_quantize(x8, x8_transposed, x_scale, x);                    // both in one pass over x
//   fp8_matmul(y, {x8, x_scale}, {w8, w_scale}, false);             // y = x w^T
//   fp8_matmul(d_x, {d_y8, d_y_scale}, {w8_transposed, w_scale}, false);
//   fp8_matmul(d_w, {d_y8_transposed, d_y_scale}, {x8_transposed, x_scale}, true);
//
// A scale is a few fp32 numbers where the tensor lies, so that the host never waits: at kFp8Expected the largest
// magnitude, of this very tensor (current scaling), which the kernel that makes it measures or fp8_measure, or of the
// steps before (delayed scaling); at kFp8Measured what fp8_quantize itself measured; and at kFp8Inverse what a value of
// 8 bits is multiplied with to get back, which fp8_quantize writes. Scales are powers of two: scaling rounds nothing,
// and a floating format loses no precision by it, at most one binade at its lower end.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace partita::internal {

// Elements of a scale, and the places of its numbers. cuBLASLt reads the inverse only from a multiple of 16 bytes.
inline constexpr int64_t kFp8Scale = 8, kFp8Expected = 0, kFp8Measured = 1, kFp8Inverse = 4;

// Whether a linear's three products exist: x [rows, in], w [out, in], each extent a multiple of 16.
[[nodiscard]] bool fp8_fits(int64_t rows, int64_t in, int64_t out);

// The power of two that values are multiplied with before they are rounded to the format: the largest that leaves
// `amax` within its range. Within 2^-126 .. 2^126; 1 for amax 0. amax infinite or NaN: NaN, so that every value becomes
// NaN, the loss shows it, and the step is skipped.
[[nodiscard]] float fp8_scale(float amax, at::ScalarType format);

// Error: a GPU without products of 8 bits.
void check_fp8_device(at::Device);

// amax [1] fp32 = max(amax, |x|) over all of x, fp32, bf16 or fp16; NaN is above all. Does not depend on any order.
void fp8_measure(at::Tensor amax, at::Tensor x);

// x [R, C] bf16 or fp16, scaled by fp8_scale(scale[0]) and rounded to nearest even, what is out of range to the last
// value in it: rows [R, C] and columns [C, R], both of at::kFloat8_e4m3fn or both of at::kFloat8_e5m2; one may be
// undefined. scale[kFp8Inverse] = 1 / fp8_scale(scale[0]). measure: fp8_measure(scale[kFp8Measured], x) in the same
// pass. R and C are multiples of 16.
void fp8_quantize(at::Tensor rows, at::Tensor columns, at::Tensor scale, at::Tensor x, bool measure = false);

struct Fp8 {
  at::Tensor values;  // [rows, k]
  at::Tensor scale;   // [kFp8Scale]
};
// out [m, n] bf16, fp16 or fp32 (+)= a [m, k] b [n, k]^T (+ bias [n] of out's dtype, if defined, where not
// accumulating), summed in fp32 (on GPUs in the lower precision of fast accumulation). At most one of a and b is E5M2.
// m, n and k are multiples of 16.
void fp8_matmul(at::Tensor out, const Fp8& a, const Fp8& b, bool accumulate, at::Tensor bias = {});

}  // namespace partita::internal
