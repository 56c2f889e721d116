#include "partita/train/builtin_hooks.h"

#include <ctime>

#include "partita/base/log.h"
#include "partita/base/timer.h"
#include "partita/train/log_line.h"
#include "partita/train/metrics_file.h"
#include "partita/train/progress.h"
#include "partita/train/tensorboard.h"

namespace partita {
namespace {

class MetricsHook : public Hook {
 public:
  explicit MetricsHook(const RunInfo& info)
      : steps_(info.directory / "metrics.jsonl", info.resumed_step),
        evals_(info.directory / "validation.jsonl", info.resumed_step) {}

  [[nodiscard]] int priority() const override { return 10; }
  void after_step(TrainerView& view) override { steps_.append(to_json(view.step)); }
  void after_eval(TrainerView& view) override { evals_.append(to_json(view.eval)); }

 private:
  MetricsFile steps_, evals_;
};

class TensorBoardHook : public Hook {
 public:
  explicit TensorBoardHook(const RunInfo& info)
      : by_step_(info.directory / "tensorboard", {.first_step = next(info.resumed_step)}),
        by_samples_(info.directory / "tensorboard" / "samples", {.first_step = next(info.resumed_samples)}) {}

  [[nodiscard]] int priority() const override { return 20; }

  void before_run(TrainerView& view) override {
    // Four spaces make Markdown show it as it is.
    const std::string text = to_toml(view.config);
    std::string markdown;
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      if (end == std::string::npos) end = text.size();
      markdown += "    " + text.substr(begin, end - begin) + "\n";
    }
    by_step_.text("config", markdown, view.info.resumed_step);
    flush();
  }

  void after_step(TrainerView& view) override {
    const StepMetrics& s = view.step;
    scalar("train/loss", s.loss, s.step, s.consumed_samples);
    scalar("train/grad_norm", s.grad_norm, s.step, s.consumed_samples);
    scalar("train/learning_rate", s.learning_rate, s.step, s.consumed_samples);
    scalar("train/tokens_per_second", s.tokens_per_second(), s.step, s.consumed_samples);
    scalar("train/seconds", s.seconds, s.step, s.consumed_samples);
    if (flushed_.seconds() > kFlushSeconds) flush();
  }

  void after_eval(TrainerView& view) override {
    const EvalMetrics& e = view.eval;
    scalar("validation/loss", e.loss, e.step, e.consumed_samples);
    scalar("validation/perplexity", e.perplexity(), e.step, e.consumed_samples);
    flush();
  }

  void after_run(TrainerView&) override { flush(); }

 private:
  static constexpr double kFlushSeconds = 5;

  // The first step that this process will write; 0: all of them.
  static int64_t next(int64_t resumed) { return resumed > 0 ? resumed + 1 : 0; }

  void scalar(const char* tag, double value, int64_t step, int64_t samples) {
    by_step_.scalar(tag, value, step);
    by_samples_.scalar(tag, value, samples);
  }
  void flush() {
    by_step_.flush();
    by_samples_.flush();
    flushed_.lap();
  }

  TensorBoardWriter by_step_, by_samples_;
  Timer flushed_;
};

class LogLineHook : public Hook {
 public:
  explicit LogLineHook(int64_t every) : every_(every) {}

  [[nodiscard]] int priority() const override { return 30; }
  void after_step(TrainerView& view) override {
    window_.add(view.step);
    // The first step says at once that all is well.
    if (view.step.step % every_ == 0 || view.step.step == view.info.resumed_step + 1) print(view);
  }
  void after_eval(TrainerView& view) override { log::print(validation_box(view.eval)); }
  void after_save(TrainerView& view) override { log::info("saved {}", view.checkpoint.string()); }
  void after_run(TrainerView& view) override {
    if (!window_.empty()) print(view);
  }

 private:
  void print(const TrainerView& view) { log::print(step_line(window_.take(), view.info, std::time(nullptr))); }

  int64_t every_;
  StepWindow window_;
};

class ProgressHook : public Hook {
 public:
  ~ProgressHook() override { log::status(""); }

  [[nodiscard]] int priority() const override { return 40; }
  void before_run(TrainerView& view) override {
    progress_ = {.steps = view.info.total_steps, .first_step = view.info.resumed_step};
    run_.lap();
  }
  void after_step(TrainerView& view) override {
    progress_.step = view.step.step;
    progress_.seconds = run_.seconds();  // with what lies between the steps: validations, checkpoints
    progress_.loss = view.step.loss;
    progress_.tokens_per_second = view.step.tokens_per_second();
    const int width = log::terminal_width();
    const bool last = progress_.step == progress_.steps;
    if (!last && shown_.seconds() < (width > 0 ? kBarSeconds : kLineSeconds)) return;
    if (width > 0) {
      // One column stays free: a full line would wrap, and could not be taken back.
      log::status(progress_bar(progress_, width - 1));
    } else {
      log::info("{}", progress_text(progress_));
    }
    shown_.lap();
  }
  void after_run(TrainerView&) override { log::status(""); }

 private:
  static constexpr double kBarSeconds = 0.1, kLineSeconds = 30;

  Progress progress_;
  Timer run_, shown_;
};

}  // namespace

std::unique_ptr<Hook> metrics_hook(const RunInfo& info) { return std::make_unique<MetricsHook>(info); }
std::unique_ptr<Hook> tensorboard_hook(const RunInfo& info) { return std::make_unique<TensorBoardHook>(info); }
std::unique_ptr<Hook> log_line_hook(int64_t every) { return std::make_unique<LogLineHook>(every); }
std::unique_ptr<Hook> progress_hook() { return std::make_unique<ProgressHook>(); }

Hooks builtin_hooks(const Config& config, const RunInfo& info) {
  Hooks hooks;
  if (info.rank != 0) return hooks;
  hooks.add(metrics_hook(info));
  if (config.log.tensorboard) hooks.add(tensorboard_hook(info));
  hooks.add(log_line_hook(config.log.every));
  const bool terminal = log::terminal_width() > 0;
  if (config.log.progress == Switch::on || (config.log.progress == Switch::automatic && terminal)) {
    hooks.add(progress_hook());
  }
  return hooks;
}

}  // namespace partita
