// GELU (tanh approximation), SiLU, and their derivatives.
#pragma once
#include "partita/ops/cuda/device.cuh"

namespace partita::internal::cuda {

inline constexpr float kLog2E = 1.44269504F;

// 1 / (1 + 2^t)
__device__ __forceinline__ float logistic_of_power(float t) { return __fdividef(1.0F, 1.0F + exp2_fast(t)); }

// gelu(x) = x (1 + tanh u) / 2 = x s with s = 1 / (1 + e^(-2u)), u = kRoot (x + kCubic x^3), kRoot = sqrt(2 / pi).
inline constexpr float kRoot = 0.797884560802865F, kCubic = 0.044715F;

__device__ __forceinline__ float gelu_gate(float x, float x_squared) {
  const float t = x * fmaf(x_squared, -2 * kRoot * kCubic * kLog2E, -2 * kRoot * kLog2E);
  return logistic_of_power(fminf(t, 115.0F));  // above this, the gate is 0 in every bit that affects x s
}

__device__ __forceinline__ float gelu(float x) { return x * gelu_gate(x, x * x); }

// s + x s (1 - s) 2 u'
__device__ __forceinline__ float gelu_slope(float x) {
  const float x_squared = x * x, s = gelu_gate(x, x_squared);
  return fmaf(x * fmaf(-s, s, s), fmaf(x_squared, 6 * kRoot * kCubic, 2 * kRoot), s);
}

__device__ __forceinline__ float sigmoid(float x) { return logistic_of_power(-kLog2E * x); }

}  // namespace partita::internal::cuda
