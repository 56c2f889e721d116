// partita plot: the loss curve of a run as SVG and PNG.
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "partita/base/log.h"
#include "partita/train/plot.h"

void add_plot_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plot", "Draws the loss curve of a run (needs gnuplot)");
  command->footer(
      "Draws training and validation loss over the steps from RUN/metrics.jsonl and RUN/validation.jsonl\n"
      "into RUN/loss.svg and RUN/loss.png; RUN/loss.gp is the gnuplot script that drew them, to be changed at will.\n\n"
      "Example: partita plot runs/quickstart");
  auto run = std::make_shared<std::filesystem::path>();
  command->add_option("RUN", *run, "directory of the run (run.directory of its configuration)")->required();
  command->callback([run] {
    const partita::LossPlot plot = partita::plot_losses(*run);
    partita::log::print(plot.svg.string() + "\n" + plot.png.string());
  });
}
