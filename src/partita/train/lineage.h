// Where a run came from, stored as lineage.json in its folder. It tells a repeated command after a stop from a request
// to start again at another checkpoint.
//
//   Lineage lineage = read_lineage("runs/b");
//   lineage.parent_checkpoint = "/data/runs/a/checkpoints/step-00000100";
//   write_lineage("runs/b", lineage);
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace partita::internal {

struct Rewind {
  int64_t from = 0, to = 0;    // steps
  std::filesystem::path kept;  // folder within the run that holds what came after `to`

  bool operator==(const Rewind&) const = default;
};

struct Lineage {
  std::filesystem::path parent_checkpoint;  // checkpoint the run started from, absolute; empty: it started at step 0
  std::filesystem::path
      parent_named;  // as the user named it: that checkpoint, or its run, whose newest checkpoint it was
  int64_t parent_step = 0;
  std::vector<Rewind> rewinds;  // oldest first
  // Step of the run's newest checkpoint when a start named it explicitly: the same command then continues from later
  // ones.
  std::optional<int64_t> resumed_at;

  bool operator==(const Lineage&) const = default;
};

// Empty if the run has no such file. Error: it cannot be read.
[[nodiscard]] Lineage read_lineage(const std::filesystem::path& run);
void write_lineage(const std::filesystem::path& run, const Lineage&);

}  // namespace partita::internal
