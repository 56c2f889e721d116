// partita launch: starts the ranks of a job through mpirun.
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "partita/base/error.h"
#include "partita/comm/launcher.h"

void add_launch_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("launch", "Starts several ranks of a command, here or on the hosts of a file");
  auto ranks = std::make_shared<int>(1);
  auto options = std::make_shared<partita::LaunchOptions>();
  command->add_option("-n,--ranks", *ranks, "how many")->required();
  command->add_option("--host-file", options->host_file,
                      "hosts in Open MPI's format, 'node1 slots=4' a line; default: this machine");
  command->add_option("--bind", options->bind, "what a rank may not leave: none, core, socket or numa")
      ->capture_default_str();
  auto of_rank = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *of_rank, "what each rank runs, behind --: a subcommand and its arguments")
      ->type_name("");
  command->footer(
      "Threads a rank are cores / ranks, unless OMP_NUM_THREADS says\n"
      "otherwise. Ctrl-C asks the ranks to save and end; a second one ends them at once.\n\n"
      "Example: partita launch -n 2 -- train configs/quickstart.toml --parallel.zero_stage=3");
  command->callback([of_rank, ranks, options] {
    if (of_rank->empty())
      throw partita::UsageError(
          "launch: no command to start: write it behind --, for example: partita launch -n 2 -- train CONFIG");
    if (const int code = partita::launch(*ranks, *of_rank, *options); code != 0) throw ExitCode{code};
  });
}
