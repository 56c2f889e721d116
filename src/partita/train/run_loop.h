// What a run does around its steps, whatever computes them: hooks, validations, checkpoints, and stops, which all ranks
// make after the same step.
//
//   RunLoop loop(config, info, std::move(hooks), mesh.world(), folder, counts);
//   loop.run({.step = ..., .evaluate = ..., .save = ...});
//   loop.close();
//
// Of the configuration it reads train.steps and the sections eval, checkpoint and log. InterruptGuard is the caller's.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "partita/checkpoint/checkpoint.h"
#include "partita/comm/communicator.h"
#include "partita/config/config.h"
#include "partita/monitor/hooks.h"
#include "partita/train/run_counts.h"
#include "partita/train/run_folder.h"
#include "partita/train/trainer.h"

namespace partita::internal {

[[nodiscard]] inline Retention retention_of(const CheckpointConfig& c) {
  return {.keep_last = static_cast<int>(c.keep_last), .keep_every = c.keep_every};
}

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
  std::function<EvalMetrics(const RunCounts&)> evaluate;  // loss and tokens. Used if eval.every > 0
  std::function<std::filesystem::path(const RunCounts&)> save;
};

class RunLoop {
 public:
  // `folder`: on rank 0, null elsewhere. counts: where the run starts, also in `info`. The configuration, the
  // communicator and the folder must outlive this object.
  RunLoop(const Config&, RunInfo info, Hooks, Communicator& ranks, RunFolder* folder, const RunCounts& counts);

  // Returns after the last step, or earlier if a signal or a hook asked for it. Error: ten skipped steps in a row.
  void run(const RunWork&);
  // Logs what was done, and what to do next.
  void close() const;
  [[nodiscard]] TrainOutcome outcome() const { return {.step = counts_.step, .interrupted = view_.stopping}; }

 private:
  void take_step(const RunWork&);
  void validate(const RunWork&);
  void save(const RunWork&);
  void notice_interrupts() const;
  bool everyone_stops();

  const Config& config_;
  RunInfo info_;
  Hooks hooks_;
  Communicator& ranks_;
  RunFolder* folder_;
  RunCounts counts_;
  TrainerView view_;
  int64_t skipped_in_a_row_ = 0;
  double seconds_ = 0;  // of run()
};

}  // namespace partita::internal
