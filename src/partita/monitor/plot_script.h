// What gnuplot runs to draw the loss of runs: data and drawing in one text.
//
//   const std::string script = loss_script(runs, {.axis = PlotAxis::tokens}, "Loss", "loss");
//   // gnuplot DIR/loss.gp, started anywhere, draws DIR/loss.svg and DIR/loss.png
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partita/monitor/metrics.h"

namespace partita::internal {

enum class PlotAxis : uint8_t { steps, tokens, samples };
inline constexpr std::array kPlotAxes = {"steps", "tokens", "samples"};  // names, in the order of PlotAxis

struct PlotContent {
  PlotAxis axis = PlotAxis::steps;
  bool learning_rate = false;  // the learning rate too, on an axis of its own
};

struct PlotRun {
  std::string name;
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
};

// `picture` is the name of the pictures without extension; they are drawn next to the script. Names are written so that
// no character of theirs means anything to gnuplot.
[[nodiscard]] std::string loss_script(std::span<const PlotRun> runs, const PlotContent& content,
                                      const std::string& title, const std::string& picture);

// Exponential average: each value counts 1 - 2 / (span + 1) times as much as the one after it, and the weights of those
// so far add up to one, so that the first value is the first average. It uses no value that comes later: the end is as
// honest as the middle. Values that are not finite are passed over; NaN before the first that is.
[[nodiscard]] std::vector<double> smoothed(std::span<const double> values, double span);

// Places of marks on an axis: whole numbers, 1, 2 or 5 times a power of ten apart, at most `most` and at least two
// where the range has two whole numbers.
[[nodiscard]] std::vector<int64_t> axis_ticks(int64_t least, int64_t largest, int64_t most);

// A mark's text, different for different marks of one axis: "400", "1.5k", "20M".
[[nodiscard]] std::string tick_label(int64_t tick, int64_t largest);

// A gnuplot string of any bytes: what is not a letter, digit or plain sign is an octal escape.
[[nodiscard]] std::string gnuplot_string(const std::string& text);

}  // namespace partita::internal
