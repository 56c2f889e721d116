// What one AdamW step multiplies with, the same for all elements of a run.
#pragma once

namespace partita {

struct AdamWFactors {
  float gradient;  // clip factor
  float one_minus_beta1, one_minus_beta2;
  float root_correction;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float keep;  // 1 - learning rate * weight decay
  float step;  // learning rate / (1 - beta1^t)
};

}  // namespace partita
