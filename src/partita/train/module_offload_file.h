// Offload for torch modules in TOML, as memory.optimizer is for `partita train`.
//
//   ZeroOptimizer offloaded(named(module), mesh, {.offload = read_offload("run.toml")});
//
// with a file such as
//
//     [memory]
//     optimizer = "host:0.3,disk:0.7"
//     disk_folder = "/nvme/scratch"
#pragma once
#include <filesystem>

#include "partita/engine/offload.h"

namespace partita {

// memory.optimizer and memory.disk_folder of the file; without the latter, states on disk are in its run.directory.
// Other tables are not read. Errors: no such file; with the line: invalid TOML, no table [memory], another key in it, a
// value that is none of memory.optimizer, a share on disk and no folder.
[[nodiscard]] Offload read_offload(const std::filesystem::path& file);

}  // namespace partita
