// Determines where a run starts and prepares its folder.
//
//   config = forked(std::move(config));                  // with run.fork: switches to the new folder
//   const fs::path checkpoint = prepare_start(config);   // on rank 0, holding the folder's lock; empty: step 0
//
// start_rule.h makes the decision. A run that starts from another run's checkpoint records it (lineage.h). Rewinding a
// run moves its later checkpoints into a subfolder, together with copies of its metrics and configuration: nothing is
// deleted.
#pragma once
#include <filesystem>

#include "partita/config/config.h"

namespace partita::internal {

// With run.fork, the configuration of the new run: it lives in that folder and starts from checkpoint.resume, or else
// from the newest checkpoint of run.directory. Otherwise returns the input. Errors: the fork's folder is the run's own;
// checkpoint.resume is "never".
[[nodiscard]] Config forked(Config);

// Errors: the named checkpoint does not exist or cannot be used; start_rule.h refuses; those of find_latest.
[[nodiscard]] std::filesystem::path prepare_start(const Config&);

// Call if `checkpoint` turned out to be damaged while loading: renames it, so that the next prepare_start finds the
// previous one. Throws `problem` as an Error if the checkpoint is not the run's own, is named in the configuration, or
// is the only one.
void fall_back_from(const Config&, const std::filesystem::path& checkpoint, const std::string& problem);

// The run folder that a checkpoint RUN/checkpoints/step-... belongs to.
[[nodiscard]] std::filesystem::path run_of(const std::filesystem::path& checkpoint);

}  // namespace partita::internal
