// Where a run came from, in its folder: lineage.json. Without it the same command, given again after a stop, could not be
// told from a wish to begin again at another checkpoint.
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
  std::filesystem::path kept;  // where what came after `to` is, in the run's folder

  bool operator==(const Rewind&) const = default;
};

struct Lineage {
  std::filesystem::path parent_checkpoint;  // that the run began at; absolute; empty: it began at its own first step
  std::filesystem::path parent_named;       // as the user named it: it, or its run, whose newest it was
  int64_t parent_step = 0;
  std::vector<Rewind> rewinds;  // oldest first
  // Step of the run's own newest checkpoint when a start named it: the same command continues from later ones.
  std::optional<int64_t> resumed_at;

  bool operator==(const Lineage&) const = default;
};

// Of a run without the file: an empty one. Error: it cannot be read.
[[nodiscard]] Lineage read_lineage(const std::filesystem::path& run);
void write_lineage(const std::filesystem::path& run, const Lineage&);

}  // namespace partita::internal
