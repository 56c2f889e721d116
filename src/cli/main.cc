// The program `partita`: subcommands, errors and exit codes (0 success, 1 error, 2 wrong usage, 75 interrupted run that
// was saved).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/other_program.h"
#include "cli/output.h"
#include "cli/process_setup.h"
#include "partita/base/error.h"
#include "partita/base/failure.h"
#include "partita/base/last_resort.h"
#include "partita/base/log.h"
#include "partita/base/mapping_guard.h"
#include "partita/base/printable.h"
#include "partita/base/rank_text.h"
#include "partita/comm/launched_arguments.h"
#include "partita/comm/world.h"

namespace partita::cli {
using namespace internal;

namespace {

// An error common to all ranks is printed once: the other ranks give rank 0 time to print it and end them.
constexpr std::chrono::milliseconds kRankZeroFirst{1500};

Launch launch_of_process() {
  try {
    return launch_of_this_process();
  } catch (const std::exception&) {
    return {};  // the environment is invalid: that error is already being printed
  }
}

int report(const std::string& message, int code) {
  const Launch launch = launch_of_process();
  if (launch.rank > 0) std::this_thread::sleep_for(kRankZeroFirst);
  const std::string text = launch.size > 1 ? of_rank(launch.rank, message) : message;
  std::fprintf(stderr, "partita: %s\n", printable(text).c_str());
  std::fflush(nullptr);
  if (launch.size > 1) World::abort(code, message);  // other ranks may be waiting for this one
  return code;
}

// Parses and runs the command line; help and version count as output like any other.
void run(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> given = own_arguments(argc, argv);
  if (is_launched() && !given.empty() && names_program(given[0])) become(given);
  std::vector<std::string> words = arrange(app, given);
  std::ranges::reverse(words);  // CLI11 expects reverse order
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw UsageError(error.what());
    std::ostringstream text;
    (void)app.exit(error, text, text);
    put(text.str());
  }
}

// End of every command: lost output is an error, except for training, which is worth more than its output and has
// warned about it.
int end_of_command() {
  const int error = lost_output();
  if (error == 0 || outlives_readers()) return 0;
  if (log::print_error() != 0 && log::enabled(log::Level::warn)) return 1;  // already reported
  fail_output(error);
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_process();
  remove_files_on_signals(argc, argv);
  install_last_resort([](int code) { World::abort(code); });
  install_mapping_guard();
  CLI::App app{"Train GPT and Llama models from raw text on any number of processes"};
  app.name("partita");
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->label("Positionals", "Arguments");
  app.set_help_flag("-h,--help", "Show this help and exit");
  app.set_version_flag("--version", "partita " PARTITA_VERSION, "Show the version and exit");
  app.require_subcommand(1);
  try {
    add_tokenizer_command(app);
    add_tokenize_command(app);
    add_dataset_command(app);
    add_train_command(app);
    add_launch_command(app);
    add_eval_command(app);
    add_generate_command(app);
    add_import_command(app);
    add_export_command(app);
    add_plot_command(app);
    add_checkpoint_command(app);
    add_bench_command(app);
    add_schedule_command(app);
    add_plan_command(app);
    run(app, argc, argv);
    return end_of_command();
  } catch (const ExitCode& code) {
    return code.value;
  } catch (const UsageError& error) {
    return report(error.what(), 2);
  } catch (...) {
    return report(current_failure_text(), 1);
  }
}

}  // namespace partita::cli

int main(int argc, char** argv) { return partita::cli::run_program(argc, argv); }
