// partita checkpoint: lists, inspects, verifies, compares, removes and rewrites checkpoints.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/checkpoint_tools.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/printable.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/report.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  std::filesystem::path path;
  bool summary = false;
};

void inspect(const Arguments& arguments) {
  const std::filesystem::path folder = resolve_checkpoint(arguments.path);
  put_line("{}", printable_line(folder.string()));
  put(printable(checkpoint_report(read_manifest(folder), {.tensors = !arguments.summary})));
}

void verify(const Arguments& arguments) {
  const std::filesystem::path folder = resolve_checkpoint(arguments.path);
  const std::vector<std::string> problems = verify_checkpoint(folder);
  for (const std::string& problem : problems) log::error("{}", problem);
  if (!problems.empty())
    fail("{} is damaged ({} problem{}): use an older checkpoint", folder.string(), problems.size(),
         problems.size() == 1 ? "" : "s");
  put_line("{}: every checksum matches", printable_line(folder.string()));
}

}  // namespace

void add_checkpoint_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("checkpoint", "List, inspect, verify, compare, prune and convert checkpoints");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<Arguments>();
  const std::string path_help = "A checkpoint, or the folder of a run (its newest checkpoint)";

  add_checkpoint_list_command(*command);

  CLI::App* look = command->add_subcommand("inspect", "Print step, ranks, scalars, files and tensors");
  add_text(*look, "PATH", arguments->path, "PATH", path_help)->required();
  look->add_flag("--summary", arguments->summary, "Print totals only, without a line per tensor");
  look->footer("Example: partita checkpoint inspect runs/quickstart");
  look->callback([arguments] { inspect(*arguments); });

  CLI::App* check = command->add_subcommand(
      "verify", "Read every file and compare it with the checksums in the manifest; exit code 1 on any difference");
  add_text(*check, "PATH", arguments->path, "PATH", path_help)->required();
  check->footer("Example: partita checkpoint verify runs/quickstart/checkpoints/step-00000100");
  check->callback([arguments] { verify(*arguments); });

  add_checkpoint_diff_command(*command);
  add_checkpoint_prune_command(*command);
  add_checkpoint_convert_command(*command);
}

}  // namespace partita::cli
