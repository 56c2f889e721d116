// What a run does around its steps, whatever computes them: hooks, validations, checkpoints, and stops, which all ranks
// make after the same step.
//
//   RunLoop loop(config, info, std::move(hooks), {.ranks = mesh.world(), .device = device}, folder, counts);
//   loop.run({.step = ..., .evaluate = ..., .contents = ..., .hold_updates = ...});
//   loop.close();
//
// Of the configuration it reads train.steps and the sections eval, checkpoint and log. InterruptGuard is the caller's.
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "partita/base/timer.h"
#include "partita/checkpoint/contents.h"
#include "partita/comm/communicator.h"
#include "partita/config/config.h"
#include "partita/device/stream.h"
#include "partita/monitor/hooks.h"
#include "partita/train/checkpoint_saver.h"
#include "partita/train/memory_tier.h"
#include "partita/train/run_counts.h"
#include "partita/train/run_folder.h"
#include "partita/train/save_schedule.h"
#include "partita/train/trainer.h"

namespace partita::internal {

struct StepOutcome {
  double loss = 0, grad_norm = 0, learning_rate = 0;
  bool skipped = false;      // a gradient was not finite: nothing was updated
  std::string skipped_at{};  // for the warning: " at loss scale 4"
  double loss_scale = 1;     // for the next step
  int64_t memory_peak = 0;   // StepMetrics::memory_peak
  bool may_diverge = true;   // many skipped steps in a row are an error
};

struct RunWork {
  std::function<StepOutcome(const RunCounts& before)> step;
  std::function<EvalMetrics(const RunCounts&)> evaluate;         // loss and tokens. Used if eval.every > 0
  std::function<CheckpointContents(const RunCounts&)> contents;  // of a checkpoint
  // Lets updates wait for the event, while a checkpoint copies what `contents` refers to.
  std::function<void(Event)> hold_updates;
};

class RunLoop {
 public:
  struct Ranks {
    Communicator& all;
    at::Device device;                    // of this one
    int local_rank = 0, local_ranks = 1;  // of this machine
  };
  // `folder`: on rank 0, null elsewhere. counts: where the run starts, also in `info`. The configuration, the
  // communicator and the folder must outlive this object. Collective.
  RunLoop(const Config&, RunInfo info, Hooks, const Ranks&, RunFolder* folder, const RunCounts& counts);

  // Returns after the last step, or earlier if a signal or a hook asked for it. Errors: ten skipped steps in a row; the
  // last checkpoint could not be saved, or several in a row.
  void run(const RunWork&);
  // Logs what was done, and what to do next.
  void close() const;
  [[nodiscard]] TrainOutcome outcome() const { return {.step = counts_.step, .interrupted = view_.stopping}; }
  // Host memory that saves have taken.
  [[nodiscard]] int64_t saving_bytes() const { return saver_.memory_bytes(); }

 private:
  // What ranks tell each other after a step.
  struct Signals {
    bool stops = false;  // somebody was interrupted
    bool late = false;   // the last save began too long ago
    bool busy = false;   // somebody's save runs in the background
  };
  Signals exchange();

  void take_step(const RunWork&);
  void validate(const RunWork&);
  // Begins a save; in the background, if possible.
  void save(const RunWork&);
  void save_at_end(const RunWork&);
  // Goes on with a save in the background.
  void go_on();
  using Save = std::function<std::optional<SaveMetrics>()>;
  // Runs something that saves; reports the checkpoint if it is complete. Returns why it failed, which all ranks know;
  // empty: it did not.
  [[nodiscard]] std::string failure_of(const Save&);
  // Counts a failure and says so, and how it will be repeated, if it will.
  void note_failure(const std::string& why, std::string_view repetition);
  void warn(const std::string& why, std::string_view what_next) const;
  void notice_interrupts() const;

  const Config& config_;
  RunInfo info_;
  Hooks hooks_;
  Communicator& ranks_;
  RunFolder* folder_;
  RunCounts counts_;
  TrainerView view_;
  CheckpointSaver saver_;
  MemoryTier memory_;
  SaveSchedule schedule_;
  Timer since_save_;     // began
  int64_t saving_ = -1;  // the step of the last save that was begun
  int64_t skipped_in_a_row_ = 0;
  double seconds_ = 0;  // of run()
};

}  // namespace partita::internal
