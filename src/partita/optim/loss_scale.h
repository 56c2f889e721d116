// Dynamic loss scaling for fp16: gradients are multiplied by `scale`, which keeps small ones from underflowing (below
// 6e-8); a step whose gradients overflow is skipped and the scale is reduced (P. Micikevicius et al., "Mixed precision
// training", 2018). Pure; scales are powers of two, so scaling is exact.
//
//   LossScale scale = first_loss_scale(options);
//   StepResult r = engine.step(batches, {.loss_scale = scale.scale});
//   scale = next_loss_scale(scale, r.skipped, options);                 // equal on every rank, like r.skipped
#pragma once
#include <cstdint>

namespace partita {

struct LossScaleOptions {
  float first = 65536;         // 2^16
  int64_t clean_steps = 2000;  // steps without overflow before the scale grows
  float growth = 2;
  float backoff = 0.5F;  // after an overflow
  float lowest = 1;
  float highest = 16777216;  // 2^24: higher values only reduce the range for large gradients
};

// Stored in checkpoints.
struct LossScale {
  float scale = 1;
  int64_t clean_steps = 0;  // since the last change of the scale
  friend bool operator==(const LossScale&, const LossScale&) = default;
};

[[nodiscard]] LossScale first_loss_scale(const LossScaleOptions&);
// Called after each step. Error: an overflow at the lowest scale.
[[nodiscard]] LossScale next_loss_scale(const LossScale&, bool overflow, const LossScaleOptions&);

}  // namespace partita
