// Which checkpoints a root holds, and which of them stay.
//
//   ROOT/step-00000100           complete: it has its name only since everything in it is on the disk
//   ROOT/step-00000200.partial   being written, left by a save that was killed, or being removed
//   ROOT/step-00000300.damaged   found damaged when it was to be loaded; nothing removes it
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
// The step in a name; none where it is no such name.
[[nodiscard]] std::optional<int64_t> parse_step_folder_name(std::string_view name);

// The step folders in root, partial ones left out, ascending. A root that does not exist holds none.
[[nodiscard]] std::vector<StepFolder> list_steps(const std::filesystem::path& root);

// Which of these steps go, now that `current` was written. Pure. `is_good` is asked of as few as can be: one that is
// not good is neither counted nor removed, and `current` is.
[[nodiscard]] std::vector<int64_t> steps_to_remove(std::span<const int64_t> steps, int64_t current, const Retention&,
                                                   const std::function<bool(int64_t)>& is_good);

[[nodiscard]] std::filesystem::path partial_path(const std::filesystem::path& folder);
// Gives the folder of a damaged checkpoint another name, so that it is kept but not taken, and returns it.
std::filesystem::path set_aside(const std::filesystem::path& folder);
// Removes what interrupted saves and removals have left. A checkpoint that publish() was replacing when its process was
// killed, and that has no other under its name, gets it back.
void remove_partials(const std::filesystem::path& root);
// A folder is renamed to partial before it is removed, so that a half removed one is not taken for a checkpoint.
void remove_checkpoint(const std::filesystem::path& folder);
// Gives `partial` the name `folder`, durably; what had that name is removed. Where the file system can exchange two
// names, one of the two is complete under it at every moment. Where it cannot (NFS), the older one is
// "FOLDER.replaced.partial" for a moment: who is killed then leaves nothing under the name until remove_partials().
void publish(const std::filesystem::path& partial, const std::filesystem::path& folder);

}  // namespace partita::internal
