// partita checkpoint list: the checkpoints of a run.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/checkpoint_tools.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/printable.h"
#include "partita/checkpoint/listing.h"
#include "partita/train/trainer.h"

namespace partita::cli {
using namespace internal;

namespace {

namespace fs = std::filesystem;

struct Arguments {
  fs::path run;
  bool json = false;
};

void list(const Arguments& arguments) {
  const fs::path own = checkpoints_folder(arguments.run);
  const fs::path& root = fs::is_directory(own) ? own : arguments.run;
  if (!fs::is_directory(root)) fail("{} is not the folder of a run: there is no such folder", arguments.run.string());
  const std::vector<ListedCheckpoint> all = list_checkpoints(root);
  if (arguments.json) {
    for (const ListedCheckpoint& checkpoint : all) put_line("{}", to_json(checkpoint).dump());
  } else if (all.empty()) {
    put_line("no checkpoints in {}", printable_line(root.string()));
  } else {
    put(printable(listing_table(all)));
  }
}

}  // namespace

void add_checkpoint_list_command(CLI::App& parent) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand("list", "Print a line per checkpoint of a run, the newest last");
  add_text(*command, "RUN", arguments->run, "RUN", "Folder of a run, or a folder of checkpoints")->required();
  command->add_flag("--json", arguments->json,
                    "Print a line of JSON per checkpoint, with bytes and seconds since 1970");
  command->footer(
      "own: bytes that belong to this checkpoint alone (no other hard link). States:\n"
      "  complete    all files are there, with the lengths in the manifest ('verify' reads them)\n"
      "  damaged     not complete, with the reason\n"
      "  unreadable  cannot be examined, with the reason\n"
      "  partial     being written, or left by a process that was killed ('prune --partial' removes it)\n"
      "  set aside   found damaged by a start of the run\n\n"
      "Example: partita checkpoint list runs/quickstart");
  command->callback([arguments] { list(*arguments); });
}

}  // namespace partita::cli
