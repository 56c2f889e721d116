// Log lines for people and scripts: training steps in Megatron-LM's format, and the box around a validation result.
//
//   StepWindow window;
//   window.add(step);                                 // each step
//   log::print(step_line(window.take(), info, now()));   // every few steps, the mean over them
//
//    [2026-01-31 12:34:56] iteration       10/    1000 | consumed samples:          320 | elapsed time per iteration
//    (ms): 512.3 | tokens per second: 15991.2 | throughput per device (TFLOP/s): 0.6 | MFU: 41.2% | learning rate:
//    6.000000E-05 | global batch size:    32 | lm loss: 8.123456E+00 | loss scale: 1.0 | grad norm: 1.234 |
//    number of skipped iterations:   0 | number of nan iterations:   0 |
//
// Without tokens, as of a user's module, there are samples per second in place of tokens and FLOP/s, and no "lm".
// Fields are separated by " | ", names from values by ": ". NaN losses, which Megatron-LM omits, are shown.
#pragma once
#include <ctime>
#include <string>

#include "partita/monitor/metrics.h"

namespace partita::internal {

// Average over several steps: loss, norm and time are averaged; counters and learning rate are the last step's.
class StepWindow {
 public:
  void add(const StepMetrics& step);
  [[nodiscard]] bool empty() const { return count_ == 0; }
  // `tokens` and `seconds` of the result are per step, so tokens_per_second() is the window's average.
  [[nodiscard]] StepMetrics take();

 private:
  StepMetrics sum_;
  int64_t count_ = 0;
};

[[nodiscard]] std::string step_line(const StepMetrics& step, const RunInfo& info, std::time_t now);

// Three lines: dashes, " validation loss at iteration 100 | lm loss value: 3.2E+00 | lm loss PPL: 2.4E+01 | ", dashes.
[[nodiscard]] std::string validation_box(const EvalMetrics& eval);

}  // namespace partita::internal
