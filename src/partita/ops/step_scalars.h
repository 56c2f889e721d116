// What changes from step to step, in memory of the device: kernels read it there, so that a captured graph can be
// replayed and no thread waits for a number.
#pragma once
#include <cstdint>

namespace partita {

struct StepScalars {
  uint64_t seed = 0;
  int64_t step = 0;       // 0 for the first; keys of random numbers
  int64_t update = 0;     // 0 for the first; skipped steps are none: bias corrections
  float loss_weight = 1;  // loss scale over the valid tokens of all ranks and micro-batches
  float learning_rate = 0;
  float gradient_scale = 1;  // the clip factor min(1, max_norm / norm) over the loss scale
  int32_t skip = 0;          // not 0: the optimizer changes nothing (overflow)
};

}  // namespace partita
