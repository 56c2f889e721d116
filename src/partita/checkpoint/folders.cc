#include "partita/checkpoint/folders.h"

#include <fcntl.h>  // AT_FDCWD
#include <stdio.h>  // renameat2
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/base/number.h"
#include "partita/checkpoint/damage.h"
#include "partita/checkpoint/manifest.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kPartial = ".partial", kDamaged = ".damaged", kReplaced = ".replaced";

std::vector<fs::path> folders_in(const fs::path& root) {
  std::error_code error;
  std::vector<fs::path> folders;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const bool folder = it->is_directory(error);
    if (folder) folders.push_back(it->path());
    // If a checkpoint cannot be examined (other than a dangling link), stop: the next increment would lose the error.
    if (error && error != std::errc::no_such_file_or_directory &&
        parse_step_folder_name(it->path().filename().string()))
      break;
    error.clear();
  }
  // An unlistable folder must not count as empty: the run would start over at its first step.
  if (error && error != std::errc::no_such_file_or_directory)
    fail("cannot list the checkpoints in {}: {}", root.string(), error.message());
  return folders;
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail("cannot rename {} to {}: {}", from.string(), to.string(), error.message());
}

// Exchanges both names atomically. False: the file system does not support it (NFS).
bool exchange(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail("cannot remove {}: {}", folder.string(), error.message());
}

// The first good step of every so many hours; none if hours is 0.
std::set<int64_t> first_of_hours(std::span<const int64_t> newest_first, int64_t hours,
                                 const std::function<bool(int64_t)>& is_good,
                                 const std::function<int64_t(int64_t)>& written) {
  if (hours == 0) return {};
  std::map<int64_t, std::vector<int64_t>> periods;  // by number
  for (const int64_t step : newest_first) periods[written(step) / 3600 / hours].push_back(step);
  std::set<int64_t> firsts;
  for (const auto& [period, steps] : periods)
    if (const auto first = std::find_if(steps.rbegin(), steps.rend(), is_good); first != steps.rend())
      firsts.insert(*first);
  return firsts;
}

}  // namespace

std::string step_folder_name(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<int64_t> parse_step_folder_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto step = parse_number<int64_t>(name.substr(kPrefix.size()));
  // Each step has one name; other spellings are not ours.
  if (!step || *step < 0 || step_folder_name(*step) != name) return std::nullopt;
  return step;
}

std::vector<StepFolder> list_steps(const fs::path& root) {
  std::vector<StepFolder> steps;
  for (const fs::path& path : folders_in(root))
    if (const auto step = parse_step_folder_name(path.filename().string())) steps.push_back({*step, path});
  std::ranges::sort(steps, {}, &StepFolder::step);
  return steps;
}

std::vector<int64_t> steps_to_remove(std::span<const int64_t> steps, int64_t current, const Retention& retention,
                                     const std::function<bool(int64_t)>& is_good,
                                     const std::function<int64_t(int64_t)>& written) {
  if (retention.keep_last <= 0) return {};
  std::vector<int64_t> newest_first(steps.begin(), steps.end());
  std::ranges::sort(newest_first, std::greater());
  const std::set<int64_t> firsts = first_of_hours(
      newest_first, retention.keep_hours, [&](int64_t step) { return step == current || is_good(step); }, written);
  std::vector<int64_t> removed;
  int64_t kept = 0;
  for (int64_t step : newest_first) {
    const bool milestone = (retention.keep_every > 0 && step % retention.keep_every == 0) || firsts.contains(step);
    if (kept >= retention.keep_last && (milestone || step == current)) continue;
    if (step != current && !is_good(step)) continue;
    if (kept < retention.keep_last)
      ++kept;
    else
      removed.push_back(step);
  }
  return removed;
}

int64_t time_of(const fs::path& folder) {
  struct stat info {};
  return ::stat((folder / kManifestName).c_str(), &info) == 0 ? static_cast<int64_t>(info.st_mtim.tv_sec) : 0;
}

fs::path partial_path(const fs::path& folder) {
  fs::path partial = folder;
  partial += kPartial;
  return partial;
}

fs::path set_aside(const fs::path& folder) {
  fs::path aside = folder;
  aside += kDamaged;
  std::error_code ignored;
  for (int number = 2; fs::exists(aside, ignored); ++number) {
    aside = folder;
    aside += fmt::format("-{}{}", number, kDamaged);
  }
  rename_folder(folder, aside);
  return aside;
}

void remove_partials(const fs::path& root) {
  for (const fs::path& path : folders_in(root)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kPartial)) continue;
    const fs::path without = fs::path(path).replace_extension();  // "step-00000100" or "step-00000100.replaced"
    const fs::path folder = fs::path(without).replace_extension();
    std::error_code ignored;
    if (without.extension() == kReplaced && !fs::exists(folder, ignored)) {
      log::warn("{} was being replaced when its run was killed: restored as it was", folder.string());
      rename_folder(path, folder);
    } else {
      remove_folder(path);
    }
  }
}

void remove_checkpoint(const fs::path& folder) {
  const fs::path partial = partial_path(folder);
  remove_folder(partial);
  rename_folder(folder, partial);
  remove_folder(partial);
}

void publish(const fs::path& partial, const fs::path& folder, bool* named) {
  std::error_code ignored;
  fs::path replaced;
  if (!fs::exists(folder, ignored) || fs::is_empty(folder, ignored)) {
    rename_folder(partial, folder);  // replaces an empty folder
  } else if (exchange(partial, folder)) {
    replaced = partial;
  } else {
    replaced = folder;
    replaced += kReplaced;
    replaced += kPartial;
    remove_folder(replaced);
    rename_folder(folder, replaced);
    try {
      rename_folder(partial, folder);
    } catch (const Error&) {
      fs::rename(replaced, folder, ignored);  // nothing was lost
      throw;
    }
  }
  if (named != nullptr) *named = true;
  sync_directory(folder.parent_path());
  if (!replaced.empty()) remove_folder(replaced);
}

}  // namespace partita::internal

namespace partita {
using namespace internal;

std::optional<fs::path> find_latest(const fs::path& root) {
  const std::vector<StepFolder> steps = list_steps(root);
  std::string first;  // problem of the newest damaged one
  int64_t damaged = 0;
  std::optional<fs::path> found;
  for (auto folder = steps.rbegin(); folder != steps.rend() && !found; ++folder) {
    try {
      (void)read_manifest(folder->path);
      found = folder->path;
    } catch (const Damaged& error) {
      if (++damaged == 1) first = error.what();
    }
  }
  if (damaged == 1) log::warn("skipping a damaged checkpoint: {}", first);
  if (damaged > 1) log::warn("skipping {} damaged checkpoints, of which the newest: {}", damaged, first);
  if (found) return found;
  if (first.empty())
    for (const fs::path& path : folders_in(root))
      if (path.extension() == kDamaged) first = path.string() + " was found damaged before";
  if (!first.empty())
    fail("no checkpoint in {} can be used ({}): restore one from a copy, or choose another run.directory",
         root.string(), first);
  return std::nullopt;
}

fs::path resolve_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path / kManifestName, ignored)) return path;
  for (const fs::path& root : {path / "checkpoints", path})
    if (const auto latest = find_latest(root)) return *latest;
  fail("{} holds no complete checkpoint: expected a run's folder or a checkpoint (a folder with {})", path.string(),
       kManifestName);
}

std::optional<fs::path> find_latest(const fs::path& root, Peers& peers) {
  const std::vector<std::string> answers = agree(peers, [&]() -> std::string {
    if (peers.rank() != 0) return "";
    const auto folder = find_latest(root);
    return folder ? folder->string() : "";
  });
  if (answers[0].empty()) return std::nullopt;
  return fs::path(answers[0]);
}

}  // namespace partita
