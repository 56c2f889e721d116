// partita checkpoint prune: removes older checkpoints of a run.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cli/checkpoint_tools.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/base/owner_lock.h"
#include "partita/base/printable.h"
#include "partita/base/removal.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/prune.h"
#include "partita/train/trainer.h"

namespace partita::cli {
using namespace internal;

namespace {

namespace fs = std::filesystem;

struct Arguments {
  fs::path run;
  Retention retention;
  bool partial = false, dry_run = false;
};

// The lock that a run holds while it trains.
class RunLock {
 public:
  explicit RunLock(const fs::path& run)
      : path_(run / "run.lock"), lock_(path_, {.what = run.string(), .advice = "use --dry-run"}) {
    add_removal(path_);
  }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock() { drop_removal(path_); }

  void require() { lock_.require(); }

 private:
  fs::path path_;
  OwnerLock lock_;
};

int64_t show(std::span<const ListedCheckpoint> all, const char* what) {
  int64_t bytes = 0;
  for (const ListedCheckpoint& checkpoint : all) {
    bytes += checkpoint.own_bytes;
    put_line("{} {}, {}", what, printable_line(checkpoint.name), human_bytes(checkpoint.own_bytes));
  }
  return bytes;
}

void prune(const Arguments& arguments) {
  const fs::path root = checkpoints_folder(arguments.run);
  if (!fs::is_directory(root))
    fail("{} is not the folder of a run: it holds no folder checkpoints", arguments.run.string());
  std::optional<RunLock> lock;
  if (!arguments.dry_run) lock.emplace(fs::absolute(arguments.run).lexically_normal());
  const char* what = lock ? "removed" : "would remove";
  int64_t bytes = 0;
  if (arguments.partial) {
    const std::vector<ListedCheckpoint> partial = leftovers(list_checkpoints(root));
    if (lock) remove_partials(root);
    bytes += show(partial, what);
  }
  const PrunePlan plan = plan_prune(list_checkpoints(root), arguments.retention);
  for (const ListedCheckpoint& checkpoint : plan.unusable)
    log::warn("{} is {}: neither counted nor removed", checkpoint.name, name_of(checkpoint.state));
  for (const ListedCheckpoint& checkpoint : plan.removed) {  // the oldest first
    if (lock) {
      lock->require();
      remove_checkpoint(root / checkpoint.name);
    }
    bytes += show({&checkpoint, 1}, what);
  }
  put_line("{} {} of {} complete checkpoints; {} {}", what, plan.removed.size(), plan.removed.size() + plan.kept.size(),
           human_bytes(bytes), lock ? "freed" : "would be freed");
}

}  // namespace

void add_checkpoint_prune_command(CLI::App& parent) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(
      "prune", "Remove older checkpoints of a run by the rule of checkpoint.keep_last, keep_every and keep_hours");
  add_text(*command, "RUN", arguments->run, "RUN", "Folder of a run, which no process is writing to")->required();
  add_number(*command, "--keep-last", arguments->retention.keep_last, {.least = 1, .most = 1e9},
             "Number of newest complete checkpoints to keep")
      ->default_str("")
      ->required();
  add_number(*command, "--keep-every", arguments->retention.keep_every, at_least(0),
             "Also keep checkpoints whose step is a multiple of this; 0: none");
  add_number(*command, "--keep-hours", arguments->retention.keep_hours, {.least = 0, .most = 1e6},
             "Also keep the first checkpoint of each period of so many hours; 0: none");
  command->add_flag("--partial", arguments->partial, "Also remove what interrupted saves left (step-N.partial)");
  command->add_flag("--dry-run", arguments->dry_run,
                    "Only print what would be removed; also while the run is training");
  command->footer(
      "Checkpoints that are damaged, unreadable or set aside are neither counted nor removed. Files are not read: use\n"
      "'partita checkpoint verify' on the newest checkpoint first where the disk is not to be trusted.\n\n"
      "Example: partita checkpoint prune runs/quickstart --keep-last 2 --keep-every 1000 --dry-run");
  command->callback([arguments] { prune(*arguments); });
}

}  // namespace partita::cli
