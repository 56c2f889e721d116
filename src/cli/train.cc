// partita train: a training run on all ranks that the launcher started.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/process_setup.h"
#include "partita/base/log.h"
#include "partita/train/trainer.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr int64_t kProfileSteps = 3;

void run(const std::filesystem::path& file, const std::vector<std::string>& overrides, bool print, bool profile) {
  ConfigSources sources;
  Config config = load_config(file, overrides, &sources);
  if (profile && config.log.profile_steps == 0) config.log.profile_steps = kProfileSteps;
  if (print) {
    const Launch launch = launch_of_this_process();
    log::configure(launch.rank, launch.size);
    validate(config.model);
    if (launch.rank == 0) put(to_toml(config, &sources));
    return;
  }
  outlive_readers();
  TrainOutcome outcome;
  {
    World world = World::connect({.timeout = std::chrono::seconds(config.parallel.timeout_seconds),
                                  .delay = std::chrono::microseconds(config.debug.delay_streams)});
    validate(config, world.size(), &sources);
    outcome = train(config, world);
  }
  if (outcome.interrupted) throw ExitCode{kInterrupted};
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a model described by a TOML file");
  auto file = std::make_shared<std::filesystem::path>();
  auto print = std::make_shared<bool>(false), profile = std::make_shared<bool>(false);
  add_text(*command, "CONFIG", *file, "CONFIG", "Configuration file in TOML")->required();
  command->add_flag("--print-config", *print,
                    "Print all settings, each with the place it comes from, and exit; the output is a valid CONFIG");
  command->add_flag(
      "--profile", *profile,
      "Trace three steps: profile.json for ui.perfetto.dev, and profile.txt with the time per kernel family");
  command->allow_extras();
  command->footer(
      "Override any key with --section.key=value after CONFIG; of a key given twice the last value counts. A run\n"
      "resumes from the newest checkpoint in its folder. On Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 the run finishes the\n"
      "current step, saves a checkpoint and exits with code 75; a second Ctrl-C stops it at once.\n"
      "Exit codes: 0 done; 1 error, also a wrong key or value in CONFIG, or values that do not fit together; 2 wrong\n"
      "usage, also a wrong key or value on the command line; 75 interrupted (and saved, unless\n"
      "checkpoint.on_interrupt is false); 130 stopped by Ctrl-C.\n\n"
      "Examples:\n"
      "  partita train configs/quickstart.toml --train.steps=100\n"
      "  partita launch -n 2 -- train configs/quickstart.toml --parallel.zero_stage=3\n"
      "  mpirun -n 2 partita train configs/quickstart.toml        (also with srun, and torchrun --no-python)\n\n"
      "Keys by section, with type, default and meaning:\n" +
      config_help());
  command->callback([command, file, print, profile] { run(*file, command->remaining(), *print, *profile); });
}

}  // namespace partita::cli
