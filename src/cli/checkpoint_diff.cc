// partita checkpoint diff: whether two checkpoints hold the same.
#include <filesystem>
#include <memory>

#include "cli/checkpoint_tools.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/printable.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/compare.h"

namespace partita::cli {
using namespace internal;

namespace {

namespace fs = std::filesystem;

struct Arguments {
  fs::path a, b;
  CompareOptions options;
};

void diff(const Arguments& arguments) {
  const fs::path a = resolve_checkpoint(arguments.a), b = resolve_checkpoint(arguments.b);
  put_line("A: {}", printable_line(a.string()));
  put_line("B: {}", printable_line(b.string()));
  const CheckpointComparison found = compare_checkpoints(a, b, arguments.options);
  put(printable(comparison_report(found)));
  if (!found.equal()) throw ExitCode{1};
}

}  // namespace

void add_checkpoint_diff_command(CLI::App& parent) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(
      "diff",
      "Compare the tensors and scalars of two checkpoints, whatever layouts wrote them; exit code 1 if they differ");
  add_text(*command, "A", arguments->a, "A", "A checkpoint, or the folder of a run (its newest checkpoint)")
      ->required();
  add_text(*command, "B", arguments->b, "B", "The other one")->required();
  add_number(*command, "--tolerance", arguments->options.tolerance, {.least = 0, .most = 1},
             "Largest relative difference of numbers that count as equal; 0: elements must have the same bits");
  add_text(*command, "--only", arguments->options.only, "PREFIX",
           "Compare only tensors whose names begin with PREFIX, such as model/, and no scalars");
  command->footer(
      "Lists each tensor that differs in name, shape, dtype or values, with its largest absolute and relative\n"
      "difference, and each scalar. Values of fp32, bf16 and fp16 are also compared with each other. Exit code: 0 if\n"
      "the checkpoints are equal; 1 if they differ, or if there is an error, which standard error then names.\n\n"
      "Example: partita checkpoint diff runs/a runs/b --only model/ --tolerance 1e-5");
  command->callback([arguments] { diff(*arguments); });
}

}  // namespace partita::cli
