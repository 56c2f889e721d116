// The loss curve of a run as a picture, drawn by gnuplot.
//
//   LossPlot plot = plot_losses("runs/quickstart");   // runs/quickstart/loss.svg, loss.png, and loss.gp that drew them
//
// Training loss of every step, its moving average, and the validation loss, over steps.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partita/train/metrics.h"

namespace partita {

struct LossPlot {
  std::filesystem::path svg, png, script;
};

// Reads metrics.jsonl and validation.jsonl of the run. Error: no such run, no steps in it, gnuplot missing or failing.
LossPlot plot_losses(const std::filesystem::path& run);

// Moving average over the `half_width` values to each side, fewer near the ends but always as many to both: it does not
// lag behind a falling curve. Values that are not finite are passed over; NaN where there are no others.
[[nodiscard]] std::vector<double> smoothed(std::span<const double> values, size_t half_width);

// What gnuplot runs: data and drawing in one text. `output` is the pictures' path without its extension.
[[nodiscard]] std::string loss_script(std::span<const StepMetrics> steps, std::span<const EvalMetrics> evals,
                                      const std::string& title, const std::string& output);

}  // namespace partita
