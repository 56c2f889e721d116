// partita export: converts a checkpoint to the formats of transformers and PEFT.
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

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
  std::filesystem::path path, folder;
  ExportOptions options;
  std::string dtype;
  double shard_gigabytes = 5;
};

void run(Arguments a) {
  configure_threads(0);
  if (!a.dtype.empty()) a.options.dtype = parse_dtype(a.dtype);
  a.options.shard_bytes = std::llround(a.shard_gigabytes * 1e9);
  export_model(a.path, a.folder, a.options);
  put_line("{}", printable_line(a.folder.string()));
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint as a folder that transformers or PEFT load");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "CHECKPOINT", a->path, "CHECKPOINT",
           "Folder of a run (its newest checkpoint), a checkpoint, or a folder of adapters")
      ->required();
  add_text(*command, "HF_DIR", a->folder, "HF_DIR", "Folder to create")->required();
  add_choice(*command, "--dtype", a->dtype, {"fp32", "bf16", "fp16"},
             "Element type (default: that of the imported model, otherwise fp32)");
  command->add_flag("--merge", a->options.merge,
                    "Merge the adapters into the base model (default: export the adapters only)");
  add_text(*command, "--base", a->options.base, "PATH",
           "Base model of the adapters (default: the path stored with them)");
  add_number(*command, "--shard-size", a->shard_gigabytes, more_than(0),
             "Largest file in GB; larger models are sharded")
      ->type_name("GB");
  command->footer("Example: partita export runs/lora out/merged --merge --dtype bf16");
  command->callback([a] { run(*a); });
}

}  // namespace partita::cli
