#include "partita/train/start_rule.h"

#include <fmt/format.h>

namespace partita::internal {
namespace {

StartDecision refuse(std::string message) { return {.kind = StartKind::refuse, .message = std::move(message)}; }

StartDecision without_checkpoints(const StartView& v) {
  if (v.resume == "never") return {.kind = StartKind::first_step};
  if (!v.named && !v.parent) return {.kind = StartKind::first_step};
  const int64_t begin = v.named ? *v.named : *v.parent;
  if (begin >= v.steps)
    return refuse(fmt::format(
        "{} would begin at step {} of {}, and train.steps is {}: nothing is left to train, raise train.steps", v.run,
        begin, v.named && !v.fork ? v.resume : std::string("another run"), v.steps));
  return {.kind = v.named ? StartKind::named : StartKind::parent};
}

}  // namespace

StartDecision decide_start(const StartView& v) {
  if (v.rewind && !v.named_is_own)
    return refuse(fmt::format(
        "run.rewind=true needs the checkpoint of {} to go back to: give its path as checkpoint.resume", v.run));
  if (!v.newest) return without_checkpoints(v);
  if (v.resume == "never")
    return refuse(
        fmt::format("run.directory {} holds step {} of an earlier run: choose another folder, or continue it by "
                    "checkpoint.resume=auto",
                    v.run, *v.newest));
  if (v.fork) {
    if (v.parent && v.named_is_parent) return {.kind = StartKind::newest};
    return refuse(
        fmt::format("run.fork {} holds another run, which {} and is at step {}: choose a new folder for this fork, or "
                    "continue that "
                    "run by its own config.toml, without run.fork",
                    v.run, v.parent ? "began at " + v.parent_path : std::string("is not a fork"), *v.newest));
  }
  if (!v.named || v.named_is_parent) return {.kind = StartKind::newest};
  if (!v.named_is_own)
    return refuse(fmt::format(
        "checkpoint.resume is {}, but run.directory {} is at step {} of its own: choose another run.directory to begin "
        "at that checkpoint, or leave checkpoint.resume out to continue this run",
        v.resume, v.run, *v.newest));
  if (*v.named >= *v.newest) return {.kind = StartKind::newest};
  if (v.rewind) return {.kind = v.rewound_to == v.named ? StartKind::newest : StartKind::rewind};
  // A repeated command whose first start rewound, or found this checkpoint to be the newest.
  if (v.rewound_to == v.named || v.resumed_at == v.named) return {.kind = StartKind::newest};
  return refuse(
      fmt::format("checkpoint.resume is step {}, but the run is at step {}: run.rewind=true goes back and keeps what "
                  "came after in a folder, --run.fork=NEW_FOLDER begins another run there, and without "
                  "checkpoint.resume the run continues at step {}",
                  *v.named, *v.newest, *v.newest));
}

bool starts_in_memory(const std::string& resume, int64_t step, int64_t in_memory) {
  return resume != "never" && in_memory > step;
}

}  // namespace partita::internal
