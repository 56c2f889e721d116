// Writes the files of one rank, or shares what has not changed with the checkpoint before.
//
//   const PieceSums sums = write_rank_files(partial, contents, files, {.previous = folder_of_last_checkpoint});
#pragma once
#include <atomic>
#include <filesystem>
#include <span>

#include "partita/checkpoint/save_plan.h"

namespace partita::internal {

struct RankWriting {
  // A complete checkpoint whose files of constant pieces may be linked to instead of written; empty: none.
  std::filesystem::path previous = {};
  const std::atomic<bool>* give_up = nullptr;  // set by another thread: stop with an error
};

// Returns the checksums of every piece. Each file is durable on return. A file of constant pieces is a hard link to
// that of `previous`, if this has the same pieces with the same checksums, is intact (a process reads it once), and the
// file system has such links. Errors:
// the folder, which rank 0 has made, is not visible here; any failed write.
[[nodiscard]] PieceSums write_rank_files(const std::filesystem::path& partial, const CheckpointContents&,
                                         std::span<const RankFile>, const RankWriting& = {});

}  // namespace partita::internal
