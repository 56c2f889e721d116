// partita export: converts a checkpoint to the formats of transformers and PEFT, llama.cpp, and llm.c.
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/printable.h"
#include "partita/comm/host_threads.h"
#include "partita/interop/model_source.h"
#include "partita/interop/model_transfer.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr const char* kQ8 = "q8_0";

struct Arguments {
  std::filesystem::path path, out;
  ExportOptions options;
  std::string dtype;
  double shard_gigabytes = 5;
};

void run(Arguments a, bool has_shard_size) {
  if (has_shard_size && export_format(a.out, a.options.format) != ExportFormat::hf)
    throw UsageError("--shard-size is for Hugging Face folders: GGUF and llm.c have one file, leave it out");
  configure_threads(0);
  a.options.q8_0 = a.dtype == kQ8;
  if (!a.dtype.empty() && !a.options.q8_0) a.options.dtype = parse_dtype(a.dtype);
  a.options.shard_bytes = std::llround(a.shard_gigabytes * 1e9);
  export_model(a.path, a.out, a.options);
  put_line("{}", printable_line(a.out.string()));
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint for transformers, PEFT, llama.cpp or llm.c");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "CHECKPOINT", a->path, "CHECKPOINT", std::string("Model: ") + kModelPaths)->required();
  add_text(*command, "OUT", a->out, "OUT",
           "What to create: a Hugging Face folder; NAME.gguf, which llama.cpp runs; or NAME.bin, a GPT-2 for llm.c")
      ->required();
  add_choice(*command, "--format", a->options.format, "Format of OUT (auto: as its name says)");
  add_choice(*command, "--dtype", a->dtype, {"fp32", "bf16", "fp16", kQ8},
             "Element type (default: that of the imported model, otherwise fp32). q8_0, in GGUF alone: blocks of 8-bit "
             "integers");
  command->add_flag("--merge", a->options.merge,
                    "Merge the adapters into the base model (default: export the adapters only)");
  add_text(*command, "--base", a->options.base, "PATH",
           "Base model of the adapters (default: the path stored with them)");
  CLI::Option* shard_size = add_number(*command, "--shard-size", a->shard_gigabytes, more_than(0),
                                       "Largest file of a Hugging Face folder in GB; larger models are sharded")
                                ->type_name("GB");
  command->footer(
      "Examples:\n"
      "  partita export runs/lora out/merged --merge --dtype bf16\n"
      "  partita export runs/gpt2 out/gpt2.gguf --dtype q8_0");
  command->callback([a, shard_size] { run(*a, shard_size->count() > 0); });
}

}  // namespace partita::cli
