// What is in a folder of checkpoints, for `partita checkpoint list` and `prune`.
//
//   const std::vector<ListedCheckpoint> all = list_checkpoints("runs/a/checkpoints");
//   fmt::print("{}", listing_table(all));
#pragma once
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/enum_names.h"

namespace partita::internal {

enum class CheckpointState : uint8_t {
  complete,    // a valid manifest, and all files with their lengths; their checksums are not read
  damaged,     // it has its final name, and is not complete
  unreadable,  // it cannot be examined: permissions, a disk that is away, another version of the format
  partial,     // being written or removed, or left by a process that was killed
  set_aside    // found damaged by a start
};

struct ListedCheckpoint {
  std::string name;  // of the folder
  int64_t step = 0;
  CheckpointState state = CheckpointState::complete;
  std::string problem;      // why it is damaged or unreadable
  std::time_t written = 0;  // of its manifest, else of what was written last; 0: unknown
  int64_t bytes = 0;        // of its files
  int64_t own_bytes = 0;    // of those without another hard link: what its removal frees
  int ranks = 0;            // 0: unknown
};

struct StepFolderKind {
  int64_t step = 0;
  CheckpointState state = CheckpointState::complete;
  bool operator==(const StepFolderKind&) const = default;
};
// By its name alone: complete, partial or set_aside. Empty: not a name of a checkpoint's folder. Pure.
[[nodiscard]] std::optional<StepFolderKind> step_folder_kind(std::string_view name);

// Every folder of a checkpoint in `root`, by step, then by time. Error: root cannot be listed.
[[nodiscard]] std::vector<ListedCheckpoint> list_checkpoints(const std::filesystem::path& root);

// A line per checkpoint under a line of titles, with times in the zone of the process. Pure.
[[nodiscard]] std::string listing_table(std::span<const ListedCheckpoint>);
// {"name": "step-00000100", "step": 100, "state": "complete", "written": 1767225600, "bytes": 1234, "own_bytes": 1234,
//  "ranks": 2}, "written" in seconds since 1970 UTC; with "problem" if there is one; without what is unknown. Pure.
[[nodiscard]] nlohmann::ordered_json to_json(const ListedCheckpoint&);

}  // namespace partita::internal

namespace partita {
template <>
struct EnumNames<internal::CheckpointState> {
  static constexpr std::array kNames = {"complete", "damaged", "unreadable", "partial", "set aside"};
};
}  // namespace partita
