#include "partita/checkpoint/save_phases.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/json.h"
#include "partita/base/log.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/rank_writer.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Removes leftovers and creates the folder. Returns the free space in bytes.
int64_t prepare_folders(const fs::path& root, const fs::path& partial) {
  std::error_code error;
  fs::create_directories(root, error);
  if (!error) remove_partials(root);
  if (!error) fs::create_directory(partial, error);
  if (error) fail("cannot make the folder {}: {}", partial.string(), error.message());
  return free_bytes(root);
}

// The newest checkpoint, whose files of constant pieces may be shared; empty: none.
fs::path newest_of(const fs::path& root) {
  const std::vector<StepFolder> steps = list_steps(root);
  return steps.empty() ? fs::path() : steps.back().path;
}

// What must fit beside the checkpoints that are there. A file that will probably be shared needs nothing; if it cannot
// be, its own reservation fails.
int64_t needed_bytes(const Manifest& manifest, const fs::path& previous) {
  int64_t needed = std::ssize(manifest_text(manifest));
  for (const StoredFile& file : manifest.files) {
    std::error_code error;
    const bool shared = !previous.empty() && file.name.starts_with(kConstantFile) &&
                        std::cmp_equal(fs::file_size(previous / file.name, error), file.bytes) && !error;
    if (!shared) needed += file.bytes;
  }
  return needed;
}

void check_free_space(const fs::path& root, int64_t step, int64_t needed, int64_t free) {
  if (needed > free)
    fail(
        "no room for the checkpoint of step {} in {}: {} needed, {} free: free some space, keep fewer checkpoints or "
        "choose another folder; older checkpoints are unchanged",
        step, root.string(), human_bytes(needed), human_bytes(free));
}

// A persistent problem would otherwise be reported at every save.
void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> said;
  const std::lock_guard lock(mutex);
  if (said.insert(text).second) log::warn("{}", text);
}

void apply_retention(const fs::path& root, int64_t current, const Retention& retention) {
  std::vector<int64_t> steps;
  for (const StepFolder& folder : list_steps(root)) steps.push_back(folder.step);
  // Unreadable checkpoints are not removed: a run may still need them once the disk is repaired.
  int64_t unusable = 0;
  std::string first;
  const auto is_good = [&](int64_t step) {
    try {
      (void)read_manifest(root / step_folder_name(step));
      return true;
    } catch (const Error& error) {
      if (++unusable == 1) first = error.what();
      return false;
    }
  };
  const std::vector<int64_t> removed = steps_to_remove(
      steps, current, retention, is_good, [&](int64_t step) { return time_of(root / step_folder_name(step)); });
  if (unusable == 1) warn_once(fmt::format("an older checkpoint is kept because it cannot be used: {}", first));
  if (unusable > 1)
    warn_once(
        fmt::format("{} older checkpoints are kept because they cannot be used; the newest: {}", unusable, first));
  for (int64_t step : removed) remove_checkpoint(root / step_folder_name(step));
}

std::vector<json> parse_all(const std::vector<std::string>& texts) {
  std::vector<json> values;
  for (const std::string& text : texts) values.push_back(parse_json(text, "a message between ranks"));
  return values;
}

}  // namespace

SavePhases::SavePhases(fs::path root, int64_t step, const CheckpointContents& state, Peers& peers, SaveOptions options)
    : root_(std::move(root)),
      folder_(root_ / step_folder_name(step)),
      partial_(partial_path(folder_)),
      options_(std::move(options)),
      leader_(peers.rank() == 0) {
  try {
    ranks_ = parse_all(agree(peers, [&] {
      files_ = files_of_rank(state, peers.rank());
      json mine = describe_save(step, state, files_);
      if (leader_) {
        mine["free"] = prepare_folders(root_, partial_);
        mine["previous"] = newest_of(root_).string();
      }
      return mine.dump();
    }));
    previous_ = ranks_[0]["previous"].get<std::string>();
    manifest_ = plan_manifest(step, state, ranks_);
    // Others may see another free space and other files: rank 0 decides.
    (void)agree(peers, [&] {
      if (leader_) check_free_space(root_, step, needed_bytes(manifest_, previous_), ranks_[0]["free"]);
      return std::string();
    });
  } catch (...) {
    std::error_code ignored;
    if (leader_) fs::remove_all(partial_, ignored);
    throw;
  }
}

SavePhases::~SavePhases() {
  std::error_code ignored;
  if (leader_ && !named_) fs::remove_all(partial_, ignored);
}

void SavePhases::write(const CheckpointContents& state) {
  attempt([&] { sums_ = write_rank_files(partial_, state, files_, {.previous = previous_, .give_up = &given_up_}); });
}

void SavePhases::gather(Peers& peers) {
  const std::vector<std::string> all = agree(peers, [&] {
    rethrow();
    return json(sums_).dump();
  });
  std::vector<PieceSums> sums;
  if (leader_)
    for (const std::string& text : all) sums.push_back(parse_json(text, "checksums").get<PieceSums>());
  if (leader_) fill_checksums(manifest_, ranks_, sums);
}

void SavePhases::publish() {
  if (!leader_) return;
  attempt([&] {
    for (const StoredFile& file : manifest_.files) {
      std::error_code error;
      const auto bytes = fs::file_size(partial_ / file.name, error);
      if (error || std::cmp_not_equal(bytes, file.bytes))
        fail("{} was written but rank 0 does not see all of it: checkpoints need a folder that all ranks share",
             (partial_ / file.name).string());
    }
    write_file(partial_ / kManifestName, manifest_text(manifest_));
    internal::publish(partial_, folder_, &named_);
    try {
      apply_retention(root_, manifest_.step, options_.retention);
    } catch (const Error& error) {  // the new checkpoint is safe: do not end the run
      log::warn("older checkpoints were not removed: {}", error.what());
    }
  });
}

void SavePhases::finish(Peers& peers) {
  (void)agree(peers, [&] {
    rethrow();
    return std::string();
  });
}

void SavePhases::run(const CheckpointContents& state, Peers& peers) {
  for (int turn = 0; turn < options_.turns; ++turn) {
    std::future<void> written;
    // A thread that the system does not give is a failure of this rank's files.
    if (turn == options_.turn)
      attempt([&] {
        written = std::async(std::launch::async, [&] {
          if (options_.enter) options_.enter();
          write(state);
        });
      });
    wait_for_all(peers, [&](std::chrono::milliseconds most) {
      return !written.valid() || written.wait_for(most) == std::future_status::ready;
    });
  }
  gather(peers);
  publish();
  finish(peers);
}

int64_t SavePhases::bytes() const {
  int64_t sum = 0;
  for (const StoredFile& file : manifest_.files) sum += file.bytes;
  return sum;
}

void SavePhases::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void SavePhases::rethrow() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace partita::internal
