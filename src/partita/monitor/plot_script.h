// Generates the gnuplot script for loss curves, with data and drawing commands in one file.
//
//   const std::string script = loss_script(runs, {.axis = PlotAxis::tokens}, "Loss", "loss");
//   // `gnuplot DIR/loss.gp`, run from any directory, draws DIR/loss.svg and DIR/loss.png
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partita/base/enum_names.h"
#include "partita/monitor/metrics.h"

namespace partita::internal {

enum class PlotAxis : uint8_t { steps, tokens, samples };
}  // namespace partita::internal

namespace partita {
template <>
struct EnumNames<internal::PlotAxis> {
  static constexpr std::array kNames = {"steps", "tokens", "samples"};
};
}  // namespace partita

namespace partita::internal {

struct PlotContent {
  PlotAxis axis = PlotAxis::steps;
  bool learning_rate = false;  // also plot the learning rate, on its own axis
};

struct PlotRun {
  std::string name;
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
};

// `picture` is the file name of the pictures without extension; they are drawn next to the script. Names are escaped,
// so that none of their characters is special to gnuplot.
[[nodiscard]] std::string loss_script(std::span<const PlotRun> runs, const PlotContent& content,
                                      const std::string& title, const std::string& picture);

// Exponential average: each value has 1 - 2 / (span + 1) times the weight of the next one, and the weights of the
// values so far are normalized to sum to one, so the first average is the first value. It is causal: later values do
// not affect earlier averages. Non-finite values are skipped; the result is NaN before the first finite one.
[[nodiscard]] std::vector<double> smoothed(std::span<const double> values, double span);

// Positions of axis ticks: integers spaced by 1, 2 or 5 times a power of ten. At most `most`, and at least two if the
// range holds two integers.
[[nodiscard]] std::vector<int64_t> axis_ticks(int64_t least, int64_t largest, int64_t most);

// Tick label, distinct for distinct ticks of one axis: "400", "1.5k", "20M".
[[nodiscard]] std::string tick_label(int64_t tick, int64_t largest);

// A gnuplot string literal of arbitrary bytes: all but letters, digits and plain punctuation become octal escapes.
[[nodiscard]] std::string gnuplot_string(const std::string& text);

}  // namespace partita::internal
