// Where a run starts: at its first step, at its own newest checkpoint, or at one that the user names. A decision on what
// is there; pure.
//
//   decide_start({.resume = "auto", .newest = 60})           // {StartKind::newest}
//   decide_start({.resume = "runs/a/checkpoints/step-00000040", .named = 40, .named_is_own = true, .newest = 60})
//                                                            // refuse: "... set run.rewind=true ..."
//
// The same command given again, by a person or by a scheduler that restarts a job, always goes on with the newest
// checkpoint: nothing that was reached is given up without a word.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace partita::internal {

struct StartView {
  std::string resume;             // checkpoint.resume as given: "auto", "never" or a path
  std::string run;                // its folder, for messages
  bool fork = false;              // run.fork is set: `run` is the new folder, and `named` is of its parent
  bool rewind = false;            // run.rewind
  std::optional<int64_t> newest;  // step of the run's own newest checkpoint
  // The checkpoint that the user means; where it is the run's own, and where the run says that it began at it (with a fork
  // and no checkpoint named: at one of the run that is forked).
  std::optional<int64_t> named;
  bool named_is_own = false, named_is_parent = false;
  std::optional<int64_t> parent;      // step of the checkpoint that the run says it began at
  std::string parent_path{};          // and its path, for messages
  std::optional<int64_t> rewound_to;  // the last time that the run was rewound
  // The checkpoint of its own that a start without run.rewind named last, when it was the newest one.
  std::optional<int64_t> resumed_at;
};

enum class StartKind : uint8_t { first_step, newest, named, parent, rewind, refuse };

struct StartDecision {
  StartKind kind = StartKind::first_step;
  std::string message{};  // why it is refused
};

[[nodiscard]] StartDecision decide_start(const StartView&);

}  // namespace partita::internal
