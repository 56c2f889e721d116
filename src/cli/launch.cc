// partita launch: starts the ranks of a job with mpirun.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/other_program.h"
#include "partita/base/error.h"
#include "partita/comm/launcher.h"

namespace partita::cli {
using namespace internal;

namespace {

// Commands that support several ranks; with any other, each rank would do the same work and write the same files.
constexpr std::array<std::string_view, 3> kOfRanks = {"train", "eval", "bench"};

// Error (wrong usage): a single-process command, or help, which every rank would print; a program that is not there.
void check_is_of_ranks(const std::vector<std::string>& of_rank, const LaunchOptions& options) {
  if (names_program(of_rank[0])) {
    if (options.host_file.empty()) require_program(of_rank[0]);  // else it is on the hosts
    return;
  }
  const bool known = std::ranges::find(kOfRanks, of_rank[0]) != kOfRanks.end();
  const bool help = std::ranges::any_of(of_rank, [](const std::string& w) { return w == "-h" || w == "--help"; });
  if (known && !help) return;
  throw UsageError(fmt::format(
      "launch: {0} runs in one process, and launch is for train, eval and bench: run 'partita {1}{2}' without launch",
      known ? "--help" : "'" + of_rank[0] + "'", of_rank[0], known ? " --help" : " ..."));
}

}  // namespace

void add_launch_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("launch", "Run a command on several ranks, on this machine or on the hosts listed in a file");
  auto ranks = std::make_shared<int>(1);
  auto options = std::make_shared<LaunchOptions>();
  add_number(*command, "-n,--ranks", *ranks, at_least(1), "Number of ranks")->required()->default_str("");
  add_text(*command, "--host-file", options->host_file, "FILE",
           "Hosts in Open MPI's format, one per line, such as 'node1 slots=4' (default: this machine)");
  add_choice(*command, "--bind", options->bind, {"none", "core", "socket", "numa"},
             "Pin each rank to a core, socket or NUMA node");
  add_number(*command, "--restarts", options->restarts, {.least = 0, .most = 1000000},
             "Start the ranks anew, at most so many times, if one was killed or training has failed; for train and "
             "programs of your own");
  command->prefix_command();  // COMMAND and its arguments
  command->footer(
      "COMMAND is train, eval or bench with its arguments, which every rank runs, or a program of your\n"
      "own by its path. Each rank uses the cores of its machine divided by the ranks there, unless\n"
      "PARTITA_NUM_THREADS or OMP_NUM_THREADS is set. On Ctrl-C the ranks save and exit; a second\n"
      "Ctrl-C stops them at once.\n"
      "With --restarts, ranks that have failed are started as new processes and resume from the newest\n"
      "checkpoint: on disk, or in memory (checkpoint.memory_every). Not after Ctrl-C or exit codes 0, 2,\n"
      "75 and 130, not after an error before the first step, and not when two restarts in a row come no\n"
      "further. The exit code is that of the last start.\n\n"
      "Examples:\n"
      "  partita launch -n 2 -- train configs/quickstart.toml --parallel.zero_stage=3\n"
      "  partita launch -n 2 --restarts 3 -- train configs/quickstart.toml --checkpoint.memory_every=10\n"
      "  partita launch -n 2 -- ./my_program arguments");
  command->callback([command, ranks, options] {
    const std::vector<std::string> of_rank = command->remaining();
    if (of_rank.empty())
      throw UsageError(
          "launch: no command to run: write it after --, for example: partita launch -n 2 -- train CONFIG");
    check_is_of_ranks(of_rank, *options);
    // Training is worth more than its output.
    const auto prints = [](const std::string& word) {
      return word == "--print-config" || word.starts_with("--print-config=");
    };
    const bool trains = of_rank[0] == "train" || names_program(of_rank[0]);
    if (options->restarts > 0 && !trains)
      throw UsageError(
          fmt::format("launch: --restarts is for train and programs of your own, not for '{}'", of_rank[0]));
    options->reports_steps = of_rank[0] == "train";
    options->output_is_needed = !trains || std::ranges::any_of(of_rank, prints);
    if (const int code = launch(*ranks, of_rank, *options); code != 0) throw ExitCode{code};
  });
}

}  // namespace partita::cli
