// What Adam and its kin share: factors and moments, in the order of operations of the CPU's kernels.
#pragma once
#include "partita/ops/step_scalars.h"

namespace partita::internal::cuda {

struct AdamFactors {
  float gradient;  // the clip factor
  float one_minus_beta1, one_minus_beta2;
  float epsilon;
  double mean_correction;  // 1 / (1 - beta1^t), for whoever multiplies it with more
  float root_correction;   // 1 / sqrt(1 - beta2^t)
};

struct Adam {
  double beta1, beta2, epsilon;

  // In double from t alone, so that a resumed run and any layout have the same.
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

// state: m and v, updated.
__device__ __forceinline__ void update_moments(const AdamFactors& f, float gradient, float (&state)[2]) {
  const float g = __fmul_rn(gradient, f.gradient);
  // m + (1 - beta1) (g - m): one rounding less than beta1 m + (1 - beta1) g
  state[0] = __fmaf_rn(__fsub_rn(g, state[0]), f.one_minus_beta1, state[0]);
  state[1] = __fmaf_rn(__fsub_rn(__fmul_rn(g, g), state[1]), f.one_minus_beta2, state[1]);
}

// m / (sqrt(v / (1 - beta2^t)) + epsilon): the update but for the correction of the mean.
__device__ __forceinline__ float adam_quotient(const AdamFactors& f, const float (&state)[2]) {
  return __fdiv_rn(state[0], __fmaf_rn(__fsqrt_rn(state[1]), f.root_correction, f.epsilon));
}

}  // namespace partita::internal::cuda
