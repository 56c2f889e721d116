// What a step of gradient descent multiplies with, the same for all elements of a run.
#pragma once

namespace partita::internal {

struct SgdFactors {
  float gradient;  // the clip factor
  float weight_decay, momentum;
  float rate;
};

}  // namespace partita::internal
