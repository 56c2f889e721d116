// The program `partita`: subcommands, errors and exit codes (0 done, 1 error, 2 wrong usage, 75 a run that was interrupted
// and saved).
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/process_setup.h"
#include "partita/base/error.h"
#include "partita/base/failure.h"
#include "partita/base/last_resort.h"
#include "partita/base/log.h"
#include "partita/base/mapping_guard.h"
#include "partita/base/printable.h"
#include "partita/comm/launched_arguments.h"
#include "partita/comm/world.h"

namespace {

// An error that all ranks found together is printed once: the others give rank 0 the time to print it and to end them.
constexpr std::chrono::milliseconds kRankZeroFirst{1500};

partita::Launch launch_of_process() {
  try {
    return partita::launch_of_this_process();
  } catch (const std::exception&) {
    return {};  // the environment is what is wrong: that error is being printed
  }
}

int report(const std::string& message, int code) {
  const partita::Launch launch = launch_of_process();
  if (launch.rank > 0) std::this_thread::sleep_for(kRankZeroFirst);
  if (launch.size > 1)
    std::fprintf(stderr, "partita: rank %d: %s\n", launch.rank, partita::printable(message).c_str());
  else
    std::fprintf(stderr, "partita: %s\n", partita::printable(message).c_str());
  std::fflush(nullptr);
  if (launch.size > 1) partita::World::abort(code, message);  // the other ranks may be waiting for this one
  return code;
}

// What was printed has arrived, or that is an error. A training run is worth more than its output, and has warned of it.
int check_output(const CLI::App& app) {
  const bool flushed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int error = partita::log::print_error() != 0 ? partita::log::print_error() : flushed ? 0 : errno;
  if (error == 0 || app.got_subcommand("train")) return 0;
  return report(fmt::format("cannot write to standard output: {}", std::strerror(error)).c_str(), 1);
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  remove_files_on_signals(argc, argv);
  partita::install_last_resort([](int code) { partita::World::abort(code); });
  partita::install_mapping_guard();
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
    std::vector<std::string> words = arrange(app, partita::own_arguments(argc, argv));
    std::ranges::reverse(words);  // the order that CLI11 takes them in
    app.parse(std::move(words));
    return check_output(app);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help and version
    return report(error.what(), 2);
  } catch (const ExitCode& code) {
    return code.value;
  } catch (const partita::UsageError& error) {
    return report(error.what(), 2);
  } catch (...) {
    return report(partita::current_failure_text(), 1);
  }
}
