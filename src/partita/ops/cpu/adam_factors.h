// Factors of Adam-like updates, common to all elements of a run.
#pragma once
#include <cmath>

#include "partita/ops/step_scalars.h"

namespace partita::internal {

struct AdamFactors {
  // Computed in double from t alone, so that resumed runs and all layouts agree.
  AdamFactors(double beta1, double beta2, double epsilon_, const StepScalars& now)
      : gradient(now.gradient_scale),
        one_minus_beta1(static_cast<float>(1 - beta1)),
        one_minus_beta2(static_cast<float>(1 - beta2)),
        epsilon(static_cast<float>(epsilon_)),
        mean_correction(1 / (1 - std::pow(beta1, static_cast<double>(now.update + 1)))),
        root_correction(static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(now.update + 1))))) {}

  float gradient;  // clip factor
  float one_minus_beta1, one_minus_beta2;
  float epsilon;
  double mean_correction;  // 1 / (1 - beta1^t), for callers that multiply it further
  float root_correction;   // 1 / sqrt(1 - beta2^t)
};

struct AdamWFactors {
  AdamFactors adam;
  float keep;  // 1 - learning rate * weight decay
  float step;  // learning rate / (1 - beta1^t)
};

struct LambFactors {
  AdamFactors adam;
  float mean_correction;  // 1 / (1 - beta1^t)
  float weight_decay;
  float step;  // learning rate * ratio
};

}  // namespace partita::internal
