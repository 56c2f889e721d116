// Dynamic loss scaling of fp16: gradients are made `scale` times as large, so that small ones do not vanish below
// fp16's 6e-8; a step whose gradients overflow is skipped, and the scale falls (P. Micikevicius et al., "Mixed
// precision training", 2018). Pure; powers of two, so that scaling rounds nothing.
//
//   LossScale scale = first_loss_scale(options);
//   StepResult r = engine.step(batches, {.loss_scale = scale.scale});
//   scale = next_loss_scale(scale, r.skipped, options);                 // the same on every rank, as r.skipped is
#pragma once
#include <cstdint>

namespace partita {

struct LossScaleOptions {
  float first = 65536;         // 2^16
  int64_t clean_steps = 2000;  // without an overflow, then it grows
  float growth = 2;
  float backoff = 0.5F;  // after an overflow
  float lowest = 1;
  float highest = 16777216;  // 2^24: more only eats the range that large gradients need
};

// Part of a checkpoint.
struct LossScale {
  float scale = 1;
  int64_t clean_steps = 0;  // since the last change of the scale
  friend bool operator==(const LossScale&, const LossScale&) = default;
};

[[nodiscard]] LossScale first_loss_scale(const LossScaleOptions&);
// After a step. Error: an overflow at the lowest scale, which no scale can mend.
[[nodiscard]] LossScale next_loss_scale(const LossScale&, bool overflow, const LossScaleOptions&);

}  // namespace partita
