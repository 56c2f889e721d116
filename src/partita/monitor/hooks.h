// Hooks: callbacks around the steps of a run that are not part of training, called in order of priority.
//
//   class Sampler : public Hook {
//     int priority() const override { return 50; }
//     void after_eval(TrainerView& view) override { log::print(sample(view.step.step)); }
//   };
//   Hooks mine;
//   mine.add(std::make_unique<Sampler>());
//   train(config, world, std::move(mine));        // in addition to the built-in ones
//
// Hooks of equal priority run in the order they were added. An exception thrown by a hook ends the run.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "partita/config/config.h"
#include "partita/monitor/metrics.h"

namespace partita {

// The run as seen by a hook. The trainer fills it; fields unrelated to the current event keep their last values.
struct TrainerView {
  const Config& config;  // of a ModuleTrainer: run, train.steps, .global_batch, .seed, schedule, eval, checkpoint, log
  const RunInfo& info;
  StepMetrics step{};         // last completed step; in before_run: step 0, or the step resumed from
  EvalMetrics eval{};         // the last validation
  SaveMetrics save{};         // the last checkpoint, of this step or, written in the background, an earlier one
  bool stopping = false;      // the last completed step is the final one, because a stop was requested
  std::string stop_reason{};  // a hook that sets this ends the run after the step, as Ctrl-C would
};

class Hook {
 public:
  virtual ~Hook() = default;
  [[nodiscard]] virtual int priority() const = 0;  // lower priorities run first
  virtual void before_run(TrainerView&) {}
  virtual void after_step(TrainerView&) {}
  virtual void after_eval(TrainerView&) {}
  virtual void after_save(TrainerView&) {}
  virtual void after_run(TrainerView&) {}
};

class Hooks {
 public:
  void add(std::unique_ptr<Hook> hook);
  void add_all(Hooks others);

  void before_run(TrainerView& view) { call(&Hook::before_run, view); }
  void after_step(TrainerView& view) { call(&Hook::after_step, view); }
  void after_eval(TrainerView& view) { call(&Hook::after_eval, view); }
  void after_save(TrainerView& view) { call(&Hook::after_save, view); }
  void after_run(TrainerView& view) { call(&Hook::after_run, view); }

  [[nodiscard]] size_t size() const { return hooks_.size(); }

 private:
  void call(void (Hook::*event)(TrainerView&), TrainerView& view) {
    for (const auto& hook : hooks_) (hook.get()->*event)(view);
  }

  std::vector<std::unique_ptr<Hook>> hooks_;  // by priority
};

}  // namespace partita
