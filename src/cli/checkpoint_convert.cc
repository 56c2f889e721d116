// partita checkpoint convert: rewrites a checkpoint.
#include <filesystem>
#include <memory>
#include <string>

#include "cli/checkpoint_tools.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/printable.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/convert.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  std::filesystem::path path, out;
  std::string states;
  ConvertOptions options;
};

void convert(Arguments arguments) {
  if (!arguments.states.empty()) arguments.options.states = parse_dtype(arguments.states);
  convert_checkpoint(resolve_checkpoint(arguments.path), arguments.out, arguments.options);
  put_line("{}", printable_line(arguments.out.string()));
}

}  // namespace

void add_checkpoint_convert_command(CLI::App& parent) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(
      "convert",
      "Rewrite a checkpoint: into another number of files, in another precision, or without optimizer states");
  add_text(*command, "PATH", arguments->path, "PATH", "A checkpoint, or the folder of a run (its newest checkpoint)")
      ->required();
  add_text(*command, "OUT", arguments->out, "OUT", "Folder to create")->required();
  add_number(*command, "--ranks", arguments->options.ranks, {.least = 1, .most = 1e6},
             "Files to write, all with about the same number of bytes (default: as many as there are)")
      ->default_str("");
  add_choice(*command, "--states", arguments->states, {"fp32", "bf16"},
             "Element type of trained weights and optimizer states (default: as they are); bf16 rounds to nearest");
  command->add_flag("--weights-only", arguments->options.weights_only,
                    "Leave out the optimizer states: for eval, generate, export and model.from, not to resume");
  command->footer(
      "Runs resume on any number of ranks and in either precision without this. The newest version of the format is\n"
      "written, also from a checkpoint of version 1. Every checksum is verified on the way.\n\n"
      "Example: partita checkpoint convert runs/a out/step-00000100 --ranks 1 --states bf16");
  command->callback([arguments] { convert(*arguments); });
}

}  // namespace partita::cli
