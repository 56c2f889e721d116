// Checkpoints: a folder a step, written beside and renamed when complete, that any number of ranks and any ZeRO stage
// can load.
//
//   CommunicatorPeers peers(mesh.data());
//   save_checkpoint("runs/a/checkpoints", 100, engine.state(), peers, {.keep_last = 2, .keep_every = 1000});
//   if (auto folder = find_latest("runs/a/checkpoints", peers))
//     nlohmann::json scalars = load_checkpoint(*folder, engine.state(), peers);
//
// ROOT/step-00000100/rank-00000.safetensors  the pieces of rank 0: a whole tensor under its own name and shape, a part
//                                            of one as "NAME[row:end,column:end]" in shape [rows, columns]
//                    ...
//                    manifest.json           written last: every global tensor, where its pieces are, their checksums
//                                            and the scalars (manifest.h)
// While it is being written the folder is called step-00000100.partial; such a folder is never read, and the next save
// removes it. ROOT lies on a file system that all ranks see.
//
// All functions with Peers are called by all ranks together. Where one rank fails, all throw the same Error.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "partita/checkpoint/contents.h"
#include "partita/checkpoint/peers.h"

namespace partita {

// Which older checkpoints stay after a save. One stays if any rule keeps it; the one just written always does.
struct Retention {
  int keep_last = 0;       // the newest this many; 0: all
  int64_t keep_every = 0;  // and those whose step is a multiple of this; 0: none
};

// Writes ROOT/step-STEP (step >= 0) and returns it. A checkpoint of the same step is replaced once the new one is
// complete. Errors, each before anything older is touched, with the partial folder removed: pieces that do not cover
// the tensors exactly once; tensors or scalars that differ between ranks; not enough free space (needed, free), checked
// before the first byte is written; any failure to write.
std::filesystem::path save_checkpoint(const std::filesystem::path& root, int64_t step, const CheckpointContents&,
                                      Peers&, const Retention& = {});

struct LoadOptions {
  // Stored tensors whose names begin so are not wanted ("adamw."): not an error, not read.
  std::vector<std::string> ignore;
};

// Fills the memory of wanted.pieces from the checkpoint, in whatever layout it was written, and returns its scalars
// (wanted.scalars is not read). All or nothing: everything is checked, checksums of what this rank reads included,
// before the first byte of memory is written on any rank. Errors: tensors that are missing, extra, of another shape or
// dtype, by name; truncated, changed or missing files, by file and tensor (Damaged).
[[nodiscard]] nlohmann::json load_checkpoint(const std::filesystem::path& folder, const CheckpointContents& wanted,
                                             Peers&, const LoadOptions& = {});

// The scalars alone: what is needed before the model exists.
[[nodiscard]] nlohmann::json read_scalars(const std::filesystem::path& folder);

// The newest complete checkpoint under root, or none where there is none of any kind. Partial folders are passed over,
// and damaged ones (damage.h: a wrong manifest, a file missing or of the wrong length) with a warning. Errors: a
// checkpoint that is newer than all good ones cannot be read; all are damaged. So no run begins again over another.
[[nodiscard]] std::optional<std::filesystem::path> find_latest(const std::filesystem::path& root);
// Rank 0 looks, all get its answer.
[[nodiscard]] std::optional<std::filesystem::path> find_latest(const std::filesystem::path& root, Peers&);

// The checkpoint that a user means by `path`: that folder itself, or the newest in path/checkpoints (`path` is a run's
// folder) or in `path`. Error: there is none.
[[nodiscard]] std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

// Reads everything and compares with the manifest. Returns what is wrong, a line each; empty: nothing.
[[nodiscard]] std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder);

}  // namespace partita
