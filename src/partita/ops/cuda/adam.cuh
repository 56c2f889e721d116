// Shared code of Adam-like rules: factors and moments, computed in the same order of operations as on the CPU.
#pragma once
#include "partita/ops/step_scalars.h"

namespace partita::internal::cuda {

struct AdamFactors {
  float gradient;  // clip factor
  float one_minus_beta1, one_minus_beta2;
  float epsilon;
  double mean_correction;  // 1 / (1 - beta1^t), for callers that multiply it further
  float root_correction;   // 1 / sqrt(1 - beta2^t)
};

struct Adam {
  double beta1, beta2, epsilon;

  // Computed in double from t alone, so that resumed runs and all layouts agree.
  [[nodiscard]] __device__ AdamFactors factors(const StepScalars& now) const {
    const auto t = static_cast<double>(now.update + 1);
    return {.gradient = now.gradient_scale,
            .one_minus_beta1 = static_cast<float>(1 - beta1),
            .one_minus_beta2 = static_cast<float>(1 - beta2),
            .epsilon = static_cast<float>(epsilon),
            .mean_correction = 1 / (1 - pow(beta1, t)),
            .root_correction = static_cast<float>(1 / sqrt(1 - pow(beta2, t)))};
  }
};

// Updates state, which holds m and v.
__device__ __forceinline__ void update_moments(const AdamFactors& f, float gradient, float (&state)[2]) {
  const float g = __fmul_rn(gradient, f.gradient);
  // m + (1 - beta1) (g - m): one rounding less than beta1 m + (1 - beta1) g
  state[0] = __fmaf_rn(__fsub_rn(g, state[0]), f.one_minus_beta1, state[0]);
  state[1] = __fmaf_rn(__fsub_rn(__fmul_rn(g, g), state[1]), f.one_minus_beta2, state[1]);
}

// m / (sqrt(v / (1 - beta2^t)) + epsilon): Adam's update without the bias correction of m.
__device__ __forceinline__ float adam_quotient(const AdamFactors& f, const float (&state)[2]) {
  return __fdiv_rn(state[0], __fmaf_rn(__fsqrt_rn(state[1]), f.root_correction, f.epsilon));
}

}  // namespace partita::internal::cuda
