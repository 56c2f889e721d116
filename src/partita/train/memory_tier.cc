#include "partita/train/memory_tier.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <exception>
#include <ranges>
#include <system_error>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/free_memory.h"
#include "partita/base/log.h"
#include "partita/base/timer.h"
#include "partita/checkpoint/background_save.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"
#include "partita/train/lineage.h"
#include "partita/train/start_rule.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

// Names the run's folder, however its path is written, and not another one that is made at its place.
std::string run_name(const fs::path& run) {
  struct statx info {};
  if (statx(AT_FDCWD, run.c_str(), 0, STATX_INO | STATX_BTIME, &info) != 0) return {};
  return fmt::format("{:x}-{:x}-{:x}-{:x}.{:x}-{}", info.stx_dev_major, info.stx_dev_minor, info.stx_ino,
                     info.stx_btime.tv_sec, info.stx_btime.tv_nsec, read_lineage(run).rewinds.size());
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  return bytes;
}

// Limits of a process alone do not count files in memory.
int64_t free_memory() {
  std::vector<MemoryLimit> limits = memory_limits();
  std::erase_if(limits, &MemoryLimit::per_process);
  return free_for_process(limits, 1).bytes;
}

std::string problem_now(const fs::path& root, int64_t bytes) {
  return memory_tier_problem(bytes, bytes_in(root), free_memory(), free_bytes(root.parent_path()));
}

// May throw, if the folder in memory cannot be read.
fs::path newest_start(const Config& config, const fs::path& root, const fs::path& on_disk,
                      const std::function<void(const fs::path&)>& require_usable) {
  remove_partials(root);
  const int64_t step = on_disk.empty() ? 0 : read_manifest(on_disk).step;
  fs::path from = on_disk;
  for (const StepFolder& kept : list_steps(root) | std::views::reverse) {
    if (from != on_disk || !starts_in_memory(config.checkpoint.resume, step, kept.step)) {
      remove_checkpoint(kept.path);
      continue;
    }
    try {
      require_usable(kept.path);
      from = kept.path;
    } catch (const std::exception& error) {
      discard_in_memory(kept.path, error.what());
    }
  }
  return from;
}

}  // namespace

fs::path memory_root(const fs::path& run) {
  const fs::path folder = memory_folder_of_job();
  const std::string name = folder.empty() ? "" : run_name(run);
  return name.empty() ? fs::path() : folder / name;
}

std::string memory_tier_problem(int64_t checkpoint_bytes, int64_t held, int64_t free, int64_t free_folder) {
  const int64_t needed = memory_tier_bytes(checkpoint_bytes);
  if (needed > (free + held) / 2)
    return fmt::format("they need {}, which is more than half of the {} of memory that is free", human_bytes(needed),
                       human_bytes(free + held));
  if (needed > free_folder + held)
    return fmt::format("they need {}, and {} is free in /dev/shm", human_bytes(needed),
                       human_bytes(free_folder + held));
  return {};
}

std::string memory_tier_warning(const Config& config, int64_t checkpoint_bytes) {
  const fs::path root = config.checkpoint.memory_every > 0 ? memory_root(config.run.directory) : fs::path();
  const std::string problem = root.empty() ? "" : problem_now(root, checkpoint_bytes);
  return problem.empty() ? "" : "checkpoints in memory will not be made: " + problem;
}

bool is_in_memory(const fs::path& checkpoint) {
  const fs::path folder = memory_folder_of_job();
  return !folder.empty() && checkpoint.parent_path().parent_path() == folder;
}

fs::path start_with_memory(const Config& config, const fs::path& on_disk,
                           const std::function<void(const fs::path&)>& require_usable) {
  const fs::path root = memory_root(config.run.directory);
  if (root.empty()) return on_disk;
  try {
    return newest_start(config, root, on_disk, require_usable);
  } catch (const std::exception& error) {
    log::warn("checkpoints in memory are not looked at: {}", error.what());
    return on_disk;
  }
}

void discard_in_memory(const fs::path& checkpoint, const std::string& problem) {
  log::warn("{}", problem);
  log::warn("this checkpoint was in memory: it is removed, and the run starts from the one before it");
  remove_checkpoint(checkpoint);
}

MemoryTier::MemoryTier(const Options& options, Communicator& ranks) : peers_(ranks), every_(options.every) {
  const std::string root = agree(peers_, [&] {
    if (peers_.rank() > 0) return std::string();
    const fs::path own = memory_root(options.run);
    if (!own.empty()) counter_.emplace(own.parent_path(), own.filename().string());
    return own.string();
  })[0];
  if (every_ == 0) return;
  if (options.local_ranks == ranks.size()) root_ = root;
  if (root_.empty() && ranks.rank() == 0)
    log::warn(
        "checkpoint.memory_every has no effect here: checkpoints in memory are for the restarts of 'partita launch "
        "--restarts N', with all ranks on one machine");
}

void MemoryTier::save(int64_t step, const CheckpointContents& contents) {
  try {
    const Timer timer;
    int64_t bytes = 0;
    for (const std::string& mine : agree(peers_, [&] { return std::to_string(snapshot_bytes(contents)); }))
      bytes += std::stoll(mine);
    const std::string problem =
        agree(peers_, [&] { return peers_.rank() == 0 ? problem_now(root_, bytes) : std::string(); })[0];
    if (!problem.empty()) return tell(problem);
    (void)save_checkpoint(root_, step, contents, peers_, {.retention = {.keep_last = 1}});
    fails_ = false;
    if (!std::exchange(told_, true))
      log::info("kept step {} in memory ({} in {:.2f} s), and so every {} steps", step, human_bytes(bytes),
                timer.seconds(), every_);
  } catch (const Error& error) {
    tell(error.what());
  }
}

void MemoryTier::tell(const std::string& problem) {
  if (!std::exchange(fails_, true) && peers_.rank() == 0)
    log::warn("the checkpoint in memory was not made, and training goes on: {}", problem);
}

}  // namespace partita::internal
