// Opens a checkpoint that another trainer wrote in its own format: a folder of torch.distributed.checkpoint, or one of
// Megatron-LM (torch_dist, or one file per rank).
//
//   if (is_trainer_checkpoint(path)) return open_trainer_checkpoint(path, config);
//
// Only the weights are read, no states of optimizers.
#pragma once
#include <filesystem>

#include "partita/interop/model_source.h"

namespace partita::internal {

// Whether the folder is one, or has a file latest_checkpointed_iteration.txt that names one.
[[nodiscard]] bool is_trainer_checkpoint(const std::filesystem::path& path);

// `config`: config.json of the model, or its folder; empty: the one in the folder or above it. A folder of
// torch.distributed.checkpoint needs one; with one of Megatron-LM it gives the vocabulary without padding, and replaces
// arguments that are missing. Errors: those of the formats; a config.json that is needed and missing, or that describes
// another model than Megatron-LM's arguments.
[[nodiscard]] ModelSource open_trainer_checkpoint(const std::filesystem::path& path,
                                                  const std::filesystem::path& config);

}  // namespace partita::internal
