// partita import: a Hugging Face folder becomes a run's folder.
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "partita/base/log.h"
#include "partita/train/model_transfer.h"

namespace {

struct Arguments {
  std::filesystem::path folder, run;
};

}  // namespace

void add_import_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("import", "Turns a Hugging Face folder of GPT-2 or Llama into a checkpoint");
  auto a = std::make_shared<Arguments>();
  command
      ->add_option("HF_DIR", a->folder,
                   "folder with config.json and model.safetensors, its shards, or pytorch_model.bin (read safely)")
      ->required();
  command->add_option("CHECKPOINT", a->run, "folder to make: checkpoints/step-00000000 and the tokenizer")->required();
  command->footer(
      "Training reads a Hugging Face folder directly too: partita train CONFIG --model.from=HF_DIR\n"
      "Example: partita import gpt2 runs/gpt2");
  command->callback([a] { partita::log::print(partita::import_model(a->folder, a->run).string()); });
}
