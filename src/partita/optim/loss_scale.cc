#include "partita/optim/loss_scale.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {
using namespace internal;

LossScale first_loss_scale(const LossScaleOptions& options) {
  if (!(options.lowest > 0 && options.lowest <= options.first && options.first <= options.highest))
    fail("loss scale: starts at {}, expected a number from the lowest, {}, to the highest, {}", options.first,
         options.lowest, options.highest);
  if (!(options.growth >= 1)) fail("loss scale: growth is {}, expected 1 or more, such as 2", options.growth);
  if (!(options.backoff > 0 && options.backoff < 1))
    fail("loss scale: backoff is {}, expected more than 0 and less than 1, such as 0.5", options.backoff);
  if (options.clean_steps < 1) fail("loss scale: grows after {} steps, expected 1 or more", options.clean_steps);
  return {.scale = options.first, .clean_steps = 0};
}

LossScale next_loss_scale(const LossScale& now, bool overflow, const LossScaleOptions& options) {
  if (overflow) {
    if (now.scale <= options.lowest)
      fail(
          "loss scale: the gradients overflow fp16 at the lowest scale, {}, where they should be finite: lower the "
          "learning rate, clip gradients, or train in bf16",
          options.lowest);
    return {.scale = std::max(options.lowest, now.scale * options.backoff), .clean_steps = 0};
  }
  if (now.clean_steps + 1 < options.clean_steps) return {.scale = now.scale, .clean_steps = now.clean_steps + 1};
  return {.scale = std::min(options.highest, now.scale * options.growth), .clean_steps = 0};
}

}  // namespace partita
