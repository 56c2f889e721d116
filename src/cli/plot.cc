// partita plot: draws the loss curves of runs as SVG and PNG.
#include <filesystem>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/printable.h"
#include "partita/monitor/plot.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  std::vector<std::string> runs;
  LossPlotOptions options;
};

}  // namespace

void add_plot_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("plot", "Draw the loss curves of one or more runs (needs gnuplot)");
  command->footer(
      "Draws training and validation loss from RUN/metrics.jsonl and RUN/validation.jsonl into RUN/loss.svg and\n"
      "RUN/loss.png (of several runs: loss.svg and loss.png in the folder that holds the first one). loss.gp next to\n"
      "them is the gnuplot script that drew them, for changes by hand. The thick line is\n"
      "an exponential moving average of the training loss over about a fiftieth of the run, so that it lags by about\n"
      "that much; runs of fewer than 50 steps have none.\n\n"
      "Examples:\n"
      "  partita plot runs/quickstart\n"
      "  partita plot runs/small runs/large --x tokens --output compare");
  auto a = std::make_shared<Arguments>();
  add_positional_list(*command, "RUN", a->runs, "RUN...", "Folders of runs (run.directory of their configuration)")
      ->required();
  add_choice(*command, "--x", a->options.content.axis, "Horizontal axis");
  command->add_flag("--learning-rate", a->options.content.learning_rate, "Draw the learning rate as well");
  add_text(*command, "--output", a->options.output, "PATH", "Write PATH.svg, PATH.png and PATH.gp");
  command->callback([a] {
    const std::vector<std::filesystem::path> runs(a->runs.begin(), a->runs.end());
    const LossPlot plot = plot_losses(runs, a->options);
    for (const std::filesystem::path& picture : {plot.svg, plot.png}) put_line("{}", printable_line(picture.string()));
  });
}

}  // namespace partita::cli
