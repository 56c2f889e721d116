// Finds where a run starts, and makes its folder ready for it.
//
//   config = forked(std::move(config));                  // run.fork: the folder is the new one
//   const fs::path checkpoint = prepare_start(config);   // rank 0, which has the folder's lock; empty: the first step
//
// start_rule.h says what is chosen. A run that begins at another's checkpoint writes down which (lineage.h). A run that
// is rewound moves its later checkpoints into a folder beside them, with copies of its figures and configuration:
// nothing is deleted.
#pragma once
#include <filesystem>

#include "partita/config/config.h"

namespace partita::internal {

// With run.fork the configuration of the new run: in that folder, from checkpoint.resume or else the newest checkpoint
// of run.directory. Otherwise the same. Errors: the folder is the run's own; checkpoint.resume is "never".
[[nodiscard]] Config forked(Config);

// Errors: the checkpoint that is named does not exist or cannot be used; start_rule.h refuses; those of find_latest.
[[nodiscard]] std::filesystem::path prepare_start(const Config&);

// After `checkpoint` was found damaged while it was loaded: gives it another name, so that the next prepare_start finds
// the one before. Error `problem`: it is not the run's own, the configuration names it, or there is no other.
void go_back_behind(const Config&, const std::filesystem::path& checkpoint, const std::string& problem);

// The folder of the run that a checkpoint belongs to: RUN/checkpoints/step-....
[[nodiscard]] std::filesystem::path run_of(const std::filesystem::path& checkpoint);

}  // namespace partita::internal
