// partita bench: speed and memory of training steps on random tokens.
#include "cli/bench_job.h"
#include "cli/commands.h"
#include "cli/options.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr const char* kKeys =
    "Keys of the model, the batch, precision, memory, parallelism and kernels apply: in CONFIG, or as\n"
    "--section.key=value after it ('partita train --help' lists them). Weights and tokens are random. Without CONFIG:\n"
    "a GPT-2 of 6 layers and 384 channels, without dropout, on samples of 256 tokens and micro-batches of 8. Unless\n"
    "train.global_batch is given, a step is one micro-batch per data-parallel rank.\n\n";

void add_shared_options(CLI::App& command, BenchArguments& a) {
  add_text(command, "CONFIG", a.file, "CONFIG", "Configuration file in TOML");
  add_number(command, "--steps", a.steps, at_least(1), "Timed steps; the median is reported");
  add_number(command, "--warmup", a.warmup, at_least(0), "Steps before the timed ones");
  command.allow_extras();
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure the speed and memory of training steps");
  command->require_subcommand(1);
  auto a = std::make_shared<BenchArguments>();

  CLI::App* step = command->add_subcommand("step", "Time training steps on random tokens; prints one line of JSON");
  add_shared_options(*step, *a);
  add_text(*step, "--profile", a->profile, "FILE",
           "Trace three more steps into FILE, for ui.perfetto.dev, with a table of the time in FILE.txt");
  step->footer(std::string(kKeys) +
               "Examples:\n"
               "  partita bench step configs/quickstart.toml --precision.compute=bf16\n"
               "  partita launch -n 2 -- bench step --model.layers=12 --parallel.zero_stage=2");
  step->callback([a, step] {
    a->settings = step->remaining();
    bench_step(*a);
  });

  CLI::App* checkpoint = command->add_subcommand(
      "checkpoint",
      "Time checkpoints, written in the background and at once, and the training steps meanwhile; prints one line of "
      "JSON");
  add_shared_options(*checkpoint, *a);
  add_text(*checkpoint, "--folder", a->folder, "FOLDER",
           "Where checkpoints are written, and removed again; default: bench-checkpoints");
  add_number(*checkpoint, "--saves", a->saves, at_least(1), "Checkpoints of each kind; the median is reported");
  checkpoint->footer(std::string(kKeys) +
                     "waited_ms is the time for which the training thread waited, copy_ms how long the copy took, "
                     "extra_ms what a save has added to the "
                     "steps that were made\nmeanwhile, and seconds the time until it was on disk.\n"
                     "Example: partita bench checkpoint --model.layers=12 --folder /nvme/bench");
  checkpoint->callback([a, checkpoint] {
    a->settings = checkpoint->remaining();
    bench_checkpoint(*a);
  });

  CLI::App* recompute = command->add_subcommand(
      "recompute",
      "Compare the memory that each recomputation level saves with the time it costs (all four models are in memory)");
  add_shared_options(*recompute, *a);
  recompute->add_flag("--json", a->json, "Print lines of JSON instead of a table");
  recompute->footer(std::string(kKeys) +
                    "Example: partita bench recompute --model.kind=llama --model.kv_heads=2 --precision.compute=bf16");
  recompute->callback([a, recompute] {
    a->settings = recompute->remaining();
    bench_recompute(*a);
  });
}

}  // namespace partita::cli
