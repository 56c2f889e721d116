// partita import: converts a Hugging Face folder to a run folder.
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/printable.h"
#include "partita/comm/host_threads.h"
#include "partita/interop/model_transfer.h"

namespace partita::cli {
using namespace internal;

namespace {

struct Arguments {
  std::filesystem::path folder, run;
};

}  // namespace

void add_import_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("import", "Convert a Hugging Face folder of GPT-2 or Llama into a checkpoint");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "HF_DIR", a->folder, "HF_DIR",
           "Folder with config.json and model.safetensors (or its shards, or pytorch_model.bin, read without running "
           "its pickle code)")
      ->required();
  add_text(*command, "RUN", a->run, "RUN", "Folder to create: checkpoints/step-00000000 and the tokenizer")->required();
  command->footer(
      "Training also reads a Hugging Face folder directly: partita train CONFIG --model.from=HF_DIR\n"
      "Example: partita import gpt2 runs/gpt2");
  command->callback([a] {
    configure_threads(0);
    put_line("{}", printable_line(import_model(a->folder, a->run).string()));
  });
}

}  // namespace partita::cli
