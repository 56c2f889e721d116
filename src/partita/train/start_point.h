// Determines where a run starts and prepares its folder.
//
//   config = forked(std::move(config));                  // with run.fork: switches to the new folder
//   const fs::path checkpoint = prepare_start(config);   // on rank 0, holding the folder's lock; empty: step 0
//
// start_rule.h makes the decision. A run that starts from another run's checkpoint records it (lineage.h). Rewinding a
// run moves its later checkpoints into a subfolder, together with copies of its metrics and configuration: nothing is
// deleted.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "partita/base/error.h"
#include "partita/config/config.h"

namespace partita::internal {

// With run.fork, the configuration of the new run: it lives in that folder and starts from checkpoint.resume, or else
// from the newest checkpoint of run.directory. Otherwise returns the input. Errors: the fork's folder is the run's own;
// checkpoint.resume is "never".
[[nodiscard]] Config forked(Config);

// Errors: the named checkpoint does not exist or cannot be used; start_rule.h refuses; those of find_latest.
[[nodiscard]] std::filesystem::path prepare_start(const Config&);

// Whether a start that could not load `checkpoint` goes on with fall_back_from: it is damaged, or in memory
// (memory_tier.h), where it is never a reason to refuse a start.
[[nodiscard]] bool may_fall_back(const std::filesystem::path& checkpoint, const Error& problem);

// For that: renames the checkpoint, so that the next prepare_start finds the previous one; removes one in memory.
// Throws `problem` as an Error if the checkpoint is not the run's own, is named in the configuration, or is the only
// one; not if it is in memory.
void fall_back_from(const Config&, const std::filesystem::path& checkpoint, const std::string& problem);

// "runs/a/checkpoints/step-00000040", "step 55 in memory (/dev/shm/...)".
[[nodiscard]] std::string start_text(const std::filesystem::path& checkpoint, int64_t step);

// The run folder that a checkpoint RUN/checkpoints/step-... belongs to.
[[nodiscard]] std::filesystem::path run_of(const std::filesystem::path& checkpoint);

}  // namespace partita::internal
