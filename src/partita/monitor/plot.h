// Plots the loss curves of runs with gnuplot.
//
//   LossPlot plot = plot_losses({{"runs/quickstart"}}, {});  // runs/quickstart/loss.svg, .png, and their loss.gp
//
// For one run: the loss of every step, its exponential average, and the validation loss. For several runs: the average
// and the validation loss of each.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partita/monitor/plot_script.h"

namespace partita::internal {

struct LossPlot {
  std::filesystem::path svg, png, script;
};

struct LossPlotOptions {
  PlotContent content;
  // Path of the output files without .svg, .png and .gp. Empty: "loss" in the folder of the (first) run.
  std::filesystem::path output;
};

// Reads metrics.jsonl and validation.jsonl of each run; a run in progress is plotted as far as it got. The three output
// files are replaced together or not at all. Error: no such run, nothing to draw, a control character in the run's
// name, gnuplot missing or failing.
LossPlot plot_losses(std::span<const std::filesystem::path> runs, const LossPlotOptions& options);

}  // namespace partita::internal
