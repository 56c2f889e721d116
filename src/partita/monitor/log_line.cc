#include "partita/monitor/log_line.h"

#include <fmt/format.h>

#include <utility>

#include "partita/base/local_time.h"
#include "partita/base/number.h"

namespace partita::internal {
void StepWindow::add(const StepMetrics& step) {
  StepMetrics sum = step;
  sum.loss += sum_.loss;
  sum.grad_norm += sum_.grad_norm;
  sum.seconds += sum_.seconds;
  sum.tokens += sum_.tokens;
  sum_ = sum;
  ++count_;
}

StepMetrics StepWindow::take() {
  StepMetrics mean = std::exchange(sum_, {});
  const auto count = static_cast<double>(count_);
  if (count_ > 0) {
    mean.loss /= count;
    mean.grad_norm /= count;
    mean.seconds /= count;
    mean.tokens /= count_;
  }
  count_ = 0;
  return mean;
}

std::string step_line(const StepMetrics& step, const RunInfo& info, std::time_t now) {
  std::string line =
      fmt::format(" [{}] iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): {:.1f} |",
                  local_time(now), step.step, info.total_steps, step.consumed_samples, step.seconds * 1e3);
  const bool of_tokens = step.tokens > 0;
  if (of_tokens) {
    const double flops = step.tokens_per_second() * info.flops_per_token / info.ranks;
    line += fmt::format(" tokens per second: {:.1f} | throughput per device (TFLOP/s): {:.3f} |",
                        step.tokens_per_second(), flops * 1e-12);
    if (info.peak_flops > 0) line += fmt::format(" MFU: {:.1f}% |", 100 * flops / info.peak_flops);
  } else {
    line += fmt::format(" samples per second: {:.1f} |",
                        step.seconds > 0 ? static_cast<double>(info.global_batch) / step.seconds : 0);
  }
  line += fmt::format(
      " learning rate: {:.6E} | global batch size: {:5d} | {}: {:.6E} | loss scale: {:.1f} | grad norm: {:.3f} | "
      "number of skipped iterations: {:3d} | number of nan iterations: {:3d} |",
      step.learning_rate, info.global_batch, of_tokens ? "lm loss" : "loss", plain_nan(step.loss), step.loss_scale,
      plain_nan(step.grad_norm), step.skipped_steps, step.nan_steps);
  return line;
}

std::string validation_box(const EvalMetrics& eval) {
  const std::string text =
      eval.tokens > 0
          ? fmt::format(" validation loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", eval.step,
                        plain_nan(eval.loss), plain_nan(eval.perplexity()))
          : fmt::format(" validation loss at iteration {} | loss value: {:.6E} | ", eval.step, plain_nan(eval.loss));
  const std::string dashes(text.size(), '-');
  return dashes + "\n" + text + "\n" + dashes;
}

}  // namespace partita::internal
