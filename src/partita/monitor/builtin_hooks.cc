#include "partita/monitor/builtin_hooks.h"

#include <ctime>

#include "partita/base/log.h"
#include "partita/base/timer.h"
#include "partita/monitor/log_line.h"
#include "partita/monitor/metrics_file.h"
#include "partita/monitor/pace.h"
#include "partita/monitor/progress.h"
#include "partita/monitor/tensorboard.h"

namespace partita::internal {
namespace {

std::string saved_text(const SaveMetrics& save) {
  std::string text =
      fmt::format("saved {} ({} in {:.1f} s", save.folder.string(), human_bytes(save.bytes), save.seconds);
  if (save.in_background) text += fmt::format(", of which training waited {:.2f} s", save.stall_seconds);
  return text + ")";
}

class MetricsHook : public Hook {
 public:
  explicit MetricsHook(const RunInfo& info)
      : steps_(info.directory / "metrics.jsonl", info.resumed_step),
        evals_(info.directory / "validation.jsonl", info.resumed_step) {}

  [[nodiscard]] int priority() const override { return 10; }
  void after_step(TrainerView& view) override { steps_.append(to_json(view.step)); }
  void after_eval(TrainerView& view) override { evals_.append(to_json(view.eval)); }
  // The figures are no part of the checkpoint, and a run is worth more than they are.
  void after_save(TrainerView&) override {
    try {
      steps_.sync();
      evals_.sync();
    } catch (const Error& error) {
      log::warn("{}", error.what());
    }
  }

 private:
  MetricsFile steps_, evals_;
};

class TensorBoardHook : public Hook {
 public:
  explicit TensorBoardHook(const RunInfo& info)
      : writer_(info.directory, {.first_step = info.resumed_step > 0 ? info.resumed_step + 1 : 0}) {}

  [[nodiscard]] int priority() const override { return 20; }

  void before_run(TrainerView& view) override {
    // Indented by four spaces, Markdown shows the text verbatim.
    const std::string& text = view.info.settings;
    std::string markdown;
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      if (end == std::string::npos) end = text.size();
      markdown += "    " + text.substr(begin, end - begin) + "\n";
    }
    writer_.text("config", markdown, view.info.resumed_step);
    flush();
  }

  void after_step(TrainerView& view) override {
    const StepMetrics& s = view.step;
    writer_.scalar("loss/train", s.loss, s.step);
    writer_.scalar("train/grad_norm", s.grad_norm, s.step);
    writer_.scalar("train/learning_rate", s.learning_rate, s.step);
    if (s.tokens > 0) writer_.scalar("train/tokens_per_second", s.tokens_per_second(), s.step);
    writer_.scalar("train/seconds", s.seconds, s.step);
    writer_.scalar("train/consumed_samples", static_cast<double>(s.consumed_samples), s.step);
    if (flushed_.seconds() > kFlushSeconds) flush();
  }

  void after_eval(TrainerView& view) override {
    const EvalMetrics& e = view.eval;
    writer_.scalar("loss/validation", e.loss, e.step);
    if (e.tokens > 0) writer_.scalar("validation/perplexity", e.perplexity(), e.step);
    flush();
  }

  void after_run(TrainerView&) override { flush(); }

 private:
  static constexpr double kFlushSeconds = 5;

  void flush() {
    writer_.flush();
    flushed_.lap();
  }

  TensorBoardWriter writer_;
  Timer flushed_;
};

class LogLineHook : public Hook {
 public:
  explicit LogLineHook(int64_t every) : every_(every) {}

  [[nodiscard]] int priority() const override { return 30; }
  void after_step(TrainerView& view) override {
    window_.add(view.step);
    // The first step is always logged, as a sign of life.
    const int64_t step = view.step.step;
    if (step % every_ == 0 || step == view.info.resumed_step + 1 || step == view.info.total_steps) print(view);
  }
  void after_eval(TrainerView& view) override { log::print(validation_box(view.eval)); }
  void after_save(TrainerView& view) override {
    if (view.stopping && !window_.empty()) print(view);  // the last step's line comes before that of its checkpoint
    log::info("{}", saved_text(view.save));
  }
  void after_run(TrainerView& view) override {
    if (!window_.empty()) print(view);
  }

 private:
  void print(const TrainerView& view) { log::print(step_line(window_.take(), view.info, std::time(nullptr))); }

  int64_t every_;
  StepWindow window_;
};

// Estimates the time per step before the first one, and corrects it after a few.
class PaceHook : public Hook {
 public:
  [[nodiscard]] int priority() const override { return 35; }
  void before_run(TrainerView& view) override {
    const RunInfo& info = view.info;
    estimate_ = estimated_step_seconds(info);
    const int64_t steps = info.total_steps - info.resumed_step;
    if (estimate_ > 0) log::info("{}", pace_text({.seconds = estimate_, .steps = steps}, info));
    if (exceeds_a_week(estimate_ * static_cast<double>(steps))) log::warn("{}", pace_advice(built_for_cuda()));
  }
  void after_step(TrainerView& view) override {
    if (estimate_ <= 0 || ++done_ > kMeasured) return;
    if (done_ > 1) seconds_ += view.step.seconds;  // the first step includes warm-up
    const int64_t left = view.info.total_steps - view.step.step;
    if (done_ < kMeasured || left == 0) return;
    const double measured = seconds_ / static_cast<double>(kMeasured - 1);
    if (needs_correction(estimate_, measured)) log::info("{}", corrected_pace_text(measured, left));
  }

 private:
  static constexpr int64_t kMeasured = 4;

  double estimate_ = 0, seconds_ = 0;
  int64_t done_ = 0;
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
    progress_.seconds = run_.seconds();  // includes validations and checkpoints between steps
    progress_.loss = view.step.loss;
    progress_.tokens_per_second = view.step.tokens_per_second();
    const int width = log::terminal_width();
    const bool last = progress_.step == progress_.steps;
    if (!last && shown_.seconds() < (width > 0 ? kBarSeconds : kLineSeconds)) return;
    if (width > 0) {
      // Leave one column free: a full line would wrap and could not be erased.
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
std::unique_ptr<Hook> pace_hook() { return std::make_unique<PaceHook>(); }
std::unique_ptr<Hook> progress_hook() { return std::make_unique<ProgressHook>(); }

Hooks builtin_hooks(const Config& config, const RunInfo& info) {
  Hooks hooks;
  if (info.rank != 0) return hooks;
  hooks.add(metrics_hook(info));
  if (config.log.tensorboard) hooks.add(tensorboard_hook(info));
  hooks.add(log_line_hook(config.log.every));
  if (info.on_cpu) hooks.add(pace_hook());
  const bool terminal = log::terminal_width() > 0;
  if (config.log.progress == Switch::on || (config.log.progress == Switch::automatic && terminal)) {
    hooks.add(progress_hook());
  }
  return hooks;
}

}  // namespace partita::internal
