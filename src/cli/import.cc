// partita import: converts a Hugging Face folder, another trainer's checkpoint or a file of llm.c to a run folder.
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
  std::filesystem::path model, run, config;
};

}  // namespace

void add_import_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "import", "Convert a GPT-2 or Llama of Hugging Face, llm.c or another trainer into a checkpoint");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "MODEL", a->model, "MODEL",
           "Hugging Face folder: config.json and model.safetensors (or its shards, or pytorch_model.bin, read without "
           "running its pickle code). Or a checkpoint of torch.distributed.checkpoint (FSDP, torchtitan) or "
           "Megatron-LM. "
           "Or a GPT-2 of llm.c: NAME.bin")
      ->required();
  add_text(*command, "RUN", a->run, "RUN", "Folder to create: checkpoints/step-00000000 and the tokenizer")->required();
  add_text(*command, "--config", a->config, "PATH",
           "config.json of the model in another trainer's checkpoint; default: the one beside it. Megatron-LM's need "
           "none");
  command->footer(
      "Training also reads these directly: partita train CONFIG --model.from=MODEL\n"
      "Examples: partita import gpt2 runs/gpt2\n"
      "          partita import --config llama/config.json outputs/checkpoint/step-1000 runs/llama\n"
      "          partita import megatron/checkpoints runs/gpt      # its latest iteration");
  command->callback([a] {
    configure_threads(0);
    put_line("{}", printable_line(import_model(a->model, a->run, a->config).string()));
  });
}

}  // namespace partita::cli
