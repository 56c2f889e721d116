// Factors of an SGD step, common to all elements of a run.
#pragma once

namespace partita::internal {

struct SgdFactors {
  float gradient;  // clip factor
  float weight_decay, momentum;
  float rate;
};

}  // namespace partita::internal
