// partita export: a checkpoint becomes what transformers and PEFT load.
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "partita/base/log.h"
#include "partita/train/model_transfer.h"

namespace {

struct Arguments {
  std::filesystem::path path, folder;
  partita::ExportOptions options;
  std::string dtype;
  double shard_gigabytes = 5;
};

void run(Arguments a) {
  if (!a.dtype.empty()) a.options.dtype = partita::parse_dtype(a.dtype);
  a.options.shard_bytes = std::llround(a.shard_gigabytes * 1e9);
  partita::export_model(a.path, a.folder, a.options);
  partita::log::print(a.folder.string());
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Writes a checkpoint as a folder that transformers or PEFT load");
  auto a = std::make_shared<Arguments>();
  command
      ->add_option("CHECKPOINT", a->path,
                   "a run's folder (its newest checkpoint is taken), a checkpoint, or a folder of adapters")
      ->required();
  command->add_option("HF_DIR", a->folder, "folder to make")->required();
  command->add_option("--dtype", a->dtype, "element type; default: as imported, otherwise fp32")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  command->add_flag("--merge", a->options.merge,
                    "a model with its adapters worked in; without it a LoRA run gives the adapters alone");
  command->add_option("--base", a->options.base,
                      "the model that adapters adapt, where it is not where training had it");
  command->add_option("--shard-size", a->shard_gigabytes, "a larger model lies in several files")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->type_name("GB");
  command->footer("Example: partita export runs/lora out/merged --merge --dtype bf16");
  command->callback([a] { run(*a); });
}
