// Values that change from step to step, in device memory: kernels read them there, so that a captured graph can be
// replayed and no thread waits for a value.
#pragma once
#include <cstdint>

namespace partita {

struct StepScalars {
  uint64_t seed = 0;
  int64_t step = 0;       // 0 for the first; keys random numbers
  int64_t update = 0;     // does not count skipped steps; used for bias correction
  float loss_weight = 1;  // loss scale / valid tokens of all ranks and micro-batches
  float learning_rate = 0;
  float gradient_scale = 1;  // clip factor min(1, max_norm / norm) / loss scale
  int32_t skip = 0;          // not 0: the optimizer writes nothing (overflow)
};

}  // namespace partita
