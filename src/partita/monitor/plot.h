// The loss curves of runs as a picture, drawn by gnuplot.
//
//   LossPlot plot = plot_losses({{"runs/quickstart"}}, {});  // runs/quickstart/loss.svg, .png, and their loss.gp
//
// Of one run: the loss of every step, its exponential average, the validation loss. Of several runs: the average and
// the validation loss of each.
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
  // Path of the files without .svg, .png and .gp. Empty: "loss" in the folder of the run, or of the first of several.
  std::filesystem::path output;
};

// Reads metrics.jsonl and validation.jsonl of each run; a run in progress has what it wrote so far. All three files are
// replaced together, or none. Error: no such run, nothing in it to draw, a control character in its name, gnuplot
// missing or failing.
LossPlot plot_losses(std::span<const std::filesystem::path> runs, const LossPlotOptions& options);

}  // namespace partita::internal
