// partita checkpoint: looks into a checkpoint, or checks that it is whole.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/report.h"

namespace {

struct Arguments {
  std::filesystem::path path;
  bool summary = false;
};

void inspect(const Arguments& arguments) {
  const std::filesystem::path folder = partita::resolve_checkpoint(arguments.path);
  partita::log::print(folder.string() + "\n" +
                      partita::checkpoint_report(partita::read_manifest(folder), {.tensors = !arguments.summary}));
}

void verify(const Arguments& arguments) {
  const std::filesystem::path folder = partita::resolve_checkpoint(arguments.path);
  const std::vector<std::string> problems = partita::verify_checkpoint(folder);
  for (const std::string& problem : problems) partita::log::error("{}", problem);
  if (!problems.empty())
    partita::fail("{} is damaged ({} problem{}): use an older checkpoint", folder.string(), problems.size(),
                  problems.size() == 1 ? "" : "s");
  partita::log::print(folder.string() + ": every checksum matches");
}

}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("checkpoint", "Looks into a checkpoint, or checks it");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<Arguments>();
  const std::string path_help = "a checkpoint, or a run's folder: its newest checkpoint is taken";

  CLI::App* look = command->add_subcommand("inspect", "Prints step, ranks, scalars, files and tensors");
  look->add_option("PATH", arguments->path, path_help)->required();
  look->add_flag("--summary", arguments->summary, "totals only, no line for each tensor");
  look->footer("Example: partita checkpoint inspect runs/quickstart");
  look->callback([arguments] { inspect(*arguments); });

  CLI::App* check = command->add_subcommand(
      "verify", "Reads all of it and compares with the checksums in its manifest; exit code 1 if anything differs");
  check->add_option("PATH", arguments->path, path_help)->required();
  check->footer("Example: partita checkpoint verify runs/quickstart/checkpoints/step-00000100");
  check->callback([arguments] { verify(*arguments); });
}
