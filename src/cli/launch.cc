// partita launch: starts the ranks of a job through mpirun.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "partita/base/error.h"
#include "partita/comm/launcher.h"

void add_launch_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("launch", "Run a command on several ranks, on this machine or on the hosts listed in a file");
  auto ranks = std::make_shared<int>(1);
  auto options = std::make_shared<partita::LaunchOptions>();
  add_number(*command, "-n,--ranks", *ranks, partita::at_least(1), "Number of ranks")->required()->default_str("");
  add_text(*command, "--host-file", options->host_file, "FILE",
           "Hosts in Open MPI's format, one per line, such as 'node1 slots=4' (default: this machine)");
  add_choice(*command, "--bind", options->bind, {"none", "core", "socket", "numa"},
             "Pin each rank to a core, socket or NUMA node");
  command->prefix_command();  // COMMAND and what follows it
  command->footer(
      "COMMAND is a command of partita with its arguments, which every rank runs. Each rank uses the\n"
      "cores of its machine divided by the ranks there, unless PARTITA_NUM_THREADS or OMP_NUM_THREADS is set. On "
      "Ctrl-C the ranks save and exit; a second Ctrl-C stops them at "
      "once.\n\n"
      "Example: partita launch -n 2 -- train configs/quickstart.toml --parallel.zero_stage=3");
  command->callback([command, ranks, options] {
    const std::vector<std::string> of_rank = command->remaining();
    if (of_rank.empty())
      throw partita::UsageError(
          "launch: no command to run: write it after --, for example: partita launch -n 2 -- train CONFIG");
    if (const int code = partita::launch(*ranks, of_rank, *options); code != 0) throw ExitCode{code};
  });
}
