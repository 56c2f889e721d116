#include "partita/checkpoint/listing.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/local_time.h"
#include "partita/base/number.h"
#include "partita/checkpoint/damage.h"
#include "partita/checkpoint/folders.h"
#include "partita/checkpoint/manifest.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

// Of a file or folder; what has disappeared meanwhile counts as nothing.
struct stat stat_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) info = {};
  return info;
}

bool remove_suffix(std::string_view& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return true;
}

// Sizes, and the time of what was written last.
void add_files(ListedCheckpoint& listed, const fs::path& folder) {
  listed.written = stat_of(folder).st_mtime;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const struct stat info = stat_of(it->path());
    if (!S_ISREG(info.st_mode)) continue;
    listed.written = std::max(listed.written, info.st_mtime);
    listed.bytes += info.st_size;
    if (info.st_nlink < 2) listed.own_bytes += info.st_size;
  }
}

void add_manifest(ListedCheckpoint& listed, const fs::path& folder) {
  if (const std::time_t written = stat_of(folder / kManifestName).st_mtime; written != 0) listed.written = written;
  try {
    listed.ranks = read_manifest(folder).ranks;
  } catch (const Damaged& error) {
    if (listed.state == CheckpointState::complete)
      listed.state = CheckpointState::damaged, listed.problem = error.what();
  } catch (const Error& error) {
    if (listed.state == CheckpointState::complete)
      listed.state = CheckpointState::unreadable, listed.problem = error.what();
  }
}

}  // namespace

std::optional<StepFolderKind> step_folder_kind(std::string_view name) {
  CheckpointState state = CheckpointState::complete;
  if (remove_suffix(name, ".partial")) {
    state = CheckpointState::partial;
    (void)remove_suffix(name, ".replaced");
  } else if (remove_suffix(name, ".damaged")) {
    state = CheckpointState::set_aside;
    // "step-00000100-2.damaged": not the first of this step.
    if (const size_t dash = name.rfind('-'); !parse_step_folder_name(name) && dash != std::string_view::npos)
      if (parse_number<int64_t>(name.substr(dash + 1))) name = name.substr(0, dash);
  }
  const auto step = parse_step_folder_name(name);
  if (!step) return std::nullopt;
  return StepFolderKind{*step, state};
}

std::vector<ListedCheckpoint> list_checkpoints(const fs::path& root) {
  std::vector<ListedCheckpoint> all;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    const auto kind = step_folder_kind(name);
    if (!kind || !it->is_directory(ignored)) continue;
    ListedCheckpoint listed{.name = name, .step = kind->step, .state = kind->state};
    add_files(listed, it->path());
    add_manifest(listed, it->path());
    all.push_back(std::move(listed));
  }
  if (error) fail("cannot list the checkpoints in {}: {}", root.string(), error.message());
  std::ranges::sort(all, {}, [](const ListedCheckpoint& c) { return std::tuple(c.step, c.written, c.name); });
  return all;
}

std::string listing_table(std::span<const ListedCheckpoint> all) {
  size_t width = std::string_view("checkpoint").size();
  for (const ListedCheckpoint& c : all) width = std::max(width, c.name.size());
  std::string text = fmt::format("{:<{}}  {:<19}  {:>10}  {:>10}  {:>5}  state\n", "checkpoint", width, "written",
                                 "size", "own", "ranks");
  for (const ListedCheckpoint& c : all)
    fmt::format_to(std::back_inserter(text), "{:<{}}  {:<19}  {:>10}  {:>10}  {:>5}  {}{}\n", c.name, width,
                   c.written == 0 ? "-" : local_time(c.written), human_bytes(c.bytes), human_bytes(c.own_bytes),
                   c.ranks == 0 ? "-" : std::to_string(c.ranks), name_of(c.state),
                   c.problem.empty() ? "" : ": " + c.problem);
  return text;
}

nlohmann::ordered_json to_json(const ListedCheckpoint& c) {
  nlohmann::ordered_json line = {{"name", c.name}, {"step", c.step}, {"state", name_of(c.state)}};
  if (!c.problem.empty()) line["problem"] = c.problem;
  if (c.written != 0) line["written"] = static_cast<int64_t>(c.written);
  line["bytes"] = c.bytes;
  line["own_bytes"] = c.own_bytes;
  if (c.ranks != 0) line["ranks"] = c.ranks;
  return line;
}

}  // namespace partita::internal
