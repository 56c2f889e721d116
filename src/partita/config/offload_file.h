// Where a TOML file says that master weights and optimizer states are: memory.optimizer and memory.disk_folder, as in a
// configuration, and nothing else of [memory]. For train/module_offload_file.h.
//
//   [memory]
//   optimizer = "host:0.3,disk:0.7"
//   disk_folder = "/nvme/scratch"
#pragma once
#include <filesystem>
#include <string_view>

#include "partita/config/optimizer_place.h"

namespace partita::internal {

struct OffloadKeys {
  OptimizerPlace place;
  std::filesystem::path disk_folder;  // empty: that of run.directory, if the file has one
};

// Errors, with file and line: invalid TOML; no [memory]; a key of it that only models of Partita have, or an unknown
// one; a value of another type; an invalid place; a share on disk and neither folder.
[[nodiscard]] OffloadKeys read_offload_keys(std::string_view text, std::string_view file);

}  // namespace partita::internal
