// Checkpoints: one folder per step, written under a temporary name and renamed when complete. Any number of ranks and
// any ZeRO stage can load it.
//
//   CommunicatorPeers peers(mesh.data());
//   save_checkpoint("runs/a/checkpoints", 100, contents, peers, {.retention = {.keep_last = 2}});
//   if (auto folder = find_latest("runs/a/checkpoints", peers))
//     nlohmann::json scalars = load_checkpoint(*folder, contents, peers);       // contents.h
//
// ROOT/step-00000100/rank-00000.safetensors  the pieces of rank 0: a whole tensor under its own name and shape, a part
//                                            of one as "NAME[row:end,column:end]" in shape [rows, columns]
//                    ...
//                    constant-00000.safetensors   pieces that do not change, a hard link to the checkpoint before
//                    manifest.json           written last: all global tensors, where their pieces are, checksums and
//                                            scalars (manifest.h)
// A folder still being written is called step-00000100.partial; it is never read, and the next save removes it. ROOT
// must be on a file system shared by all ranks.
//
// Functions with Peers are collective. If one rank fails, all throw the same Error.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "partita/checkpoint/contents.h"
#include "partita/checkpoint/peers.h"

namespace partita {

// Which older checkpoints to keep after a save: those matching any rule. The newly written one is always kept.
struct Retention {
  int keep_last = 0;       // number of newest checkpoints to keep; 0: all
  int64_t keep_every = 0;  // also keep steps that are multiples of this; 0: none
  int64_t keep_hours = 0;  // also keep the first checkpoint of every so many hours since 1970; 0: none
};

struct SaveOptions {
  Retention retention = {};
  // Ranks write in turns, 0 to turns - 1, so that few of a machine write at the same time. turns: equal on all ranks.
  int turn = 0, turns = 1;
  std::function<void()> enter = nullptr;  // called first in threads that copy or write
};

// Writes ROOT/step-STEP (step >= 0) and returns it. An existing checkpoint of the same step is replaced once the new
// one is complete. Errors, each raised before existing data is touched and with the partial folder removed: pieces that
// do not cover the tensors exactly once; tensors or scalars that differ between ranks; not enough free space (checked
// before the first byte is written); any write failure. background_save.h does the same while training goes on.
std::filesystem::path save_checkpoint(const std::filesystem::path& root, int64_t step, const CheckpointContents&,
                                      Peers&, const SaveOptions& = {});

struct LoadOptions {
  // Prefixes of stored tensors to skip, such as "adamw.": they are not read, and not an error.
  std::vector<std::string> ignore;
};

// Fills the memory of wanted.pieces from the checkpoint, whatever layout it was written in, and returns its scalars
// (wanted.scalars is not read). Of fp32, bf16 and fp16, stored tensors are converted to the wanted dtype, rounded to
// nearest with ties to even; rank 0 logs that. All or nothing: everything, including the checksums of what this rank
// reads, is checked before any memory is written on any rank. Errors: tensors that are missing, unexpected, of another
// shape, or of a dtype that cannot be converted, by name; a finite value beyond the range of the wanted dtype;
// truncated, changed or missing files, by file and tensor (Damaged).
[[nodiscard]] nlohmann::json load_checkpoint(const std::filesystem::path& folder, const CheckpointContents& wanted,
                                             Peers&, const LoadOptions& = {});

// Only the scalars, which are needed before the model exists.
[[nodiscard]] nlohmann::json read_scalars(const std::filesystem::path& folder);

// The newest complete checkpoint under root; empty if there is none at all. Partial folders are skipped; so are damaged
// ones (damage.h: an invalid manifest, a file missing or of the wrong length), with a warning. Errors: a checkpoint
// newer than all good ones cannot be read; all are damaged. So a run never silently starts over.
[[nodiscard]] std::optional<std::filesystem::path> find_latest(const std::filesystem::path& root);
// Rank 0 looks; all ranks get its answer.
[[nodiscard]] std::optional<std::filesystem::path> find_latest(const std::filesystem::path& root, Peers&);

// The checkpoint that a user means by `path`: that folder itself, or the newest in path/checkpoints (`path` is a run's
// folder) or in `path`. Error: there is none.
[[nodiscard]] std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

// Reads everything and compares it with the manifest. Returns one line per problem; empty: none.
[[nodiscard]] std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder);

}  // namespace partita
