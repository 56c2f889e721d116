// Decides where a run starts: at step 0, at its own newest checkpoint, or at one named by the user. Pure.
//
//   decide_start({.resume = "auto", .newest = 60})           // {StartKind::newest}
//   decide_start({.resume = "runs/a/checkpoints/step-00000040", .newest = 60, .named = 40, .named_is_own = true})
//                                                            // refuse: "... set run.rewind=true ..."
//
// Repeating the same command, by hand or by a scheduler that restarts a job, always continues from the newest
// checkpoint: progress is never discarded silently.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace partita::internal {

struct StartView {
  std::string resume;                                   // checkpoint.resume as given: "auto", "never" or a path
  std::string run;                                      // its folder, for messages
  int64_t steps = std::numeric_limits<int64_t>::max();  // train.steps
  bool fork = false;              // run.fork is set: `run` is the new folder and `named` belongs to its parent
  bool rewind = false;            // run.rewind
  std::optional<int64_t> newest;  // step of the run's own newest checkpoint
  // Step of the checkpoint named by the user; whether it belongs to this run, and whether it is the one this run was
  // recorded to have started from (for a fork without a named checkpoint: any checkpoint of the forked run).
  std::optional<int64_t> named;
  bool named_is_own = false, named_is_parent = false;
  std::optional<int64_t> parent;      // step of the checkpoint this run was recorded to have started from
  std::string parent_path{};          // and its path, for messages
  std::optional<int64_t> rewound_to;  // target step of the run's latest rewind
  // Step of the run's own checkpoint that was named by the last start without run.rewind, when it was the newest.
  std::optional<int64_t> resumed_at;
};

enum class StartKind : uint8_t { first_step, newest, named, parent, rewind, refuse };

struct StartDecision {
  StartKind kind = StartKind::first_step;
  std::string message{};  // reason for a refusal
};

[[nodiscard]] StartDecision decide_start(const StartView&);

// Whether a run that would start at `step` of a checkpoint on disk, or at step 0, starts at its checkpoint in memory
// instead (memory_tier.h). That on disk has priority at the same step.
[[nodiscard]] bool starts_in_memory(const std::string& resume, int64_t step, int64_t in_memory);

}  // namespace partita::internal
