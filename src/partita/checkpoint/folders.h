// The checkpoint folders under a root, and which of them to keep.
//
//   ROOT/step-00000100           complete: renamed to this only after all its contents are on disk
//   ROOT/step-00000200.partial   being written or removed, or left by a killed save
//   ROOT/step-00000300.damaged   found to be damaged on load; never removed automatically
//
//   for (const StepFolder& folder : list_steps(root)) ...
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/checkpoint.h"

namespace partita::internal {

struct StepFolder {
  int64_t step = 0;
  std::filesystem::path path;
};

[[nodiscard]] std::string step_folder_name(int64_t step);  // 100 -> "step-00000100"
// The step in a folder name; empty: not a step folder's name.
[[nodiscard]] std::optional<int64_t> parse_step_folder_name(std::string_view name);

// The step folders in root without partial ones, in ascending order. Empty if root does not exist.
[[nodiscard]] std::vector<StepFolder> list_steps(const std::filesystem::path& root);

// When the manifest was written, in seconds since 1970; 0: unknown.
[[nodiscard]] int64_t time_of(const std::filesystem::path& folder);

// The steps to remove after `current` was written. Pure. Calls `is_good` as rarely as possible: a bad step is neither
// counted nor removed, and `current` is known to be good. written(step): seconds since 1970, asked for if keep_hours
// is set.
[[nodiscard]] std::vector<int64_t> steps_to_remove(
    std::span<const int64_t> steps, int64_t current, const Retention&, const std::function<bool(int64_t)>& is_good,
    const std::function<int64_t(int64_t)>& written = [](int64_t) { return int64_t{0}; });

[[nodiscard]] std::filesystem::path partial_path(const std::filesystem::path& folder);
// Renames the folder of a damaged checkpoint, so that it is kept but never loaded, and returns the new name.
std::filesystem::path set_aside(const std::filesystem::path& folder);
// Removes what interrupted saves and removals left. Restores a checkpoint that publish() was replacing when its process
// was killed, if nothing has its name.
void remove_partials(const std::filesystem::path& root);
// Renames the folder to partial first, so that a half removed one is never taken for a checkpoint.
void remove_checkpoint(const std::filesystem::path& folder);
// Durably renames `partial` to `folder` and removes the previous `folder`. If the file system can exchange two names, a
// complete checkpoint has the name at every moment. Otherwise (NFS) the old one is briefly called
// "FOLDER.replaced.partial": if the process is killed then, `folder` does not exist until remove_partials(). `named`,
// if not null, becomes true with the new name: an error after that (the name is not yet durable) leaves both versions.
void publish(const std::filesystem::path& partial, const std::filesystem::path& folder, bool* named = nullptr);

}  // namespace partita::internal
