#include "partita/train/run_end.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "partita/base/duration.h"
#include "partita/base/foreign_format.h"
#include "partita/base/printable.h"
#include "partita/monitor/progress.h"

namespace partita::internal {
namespace {

std::string figures(const RunEnd& e) {
  const int64_t steps = e.step - e.first_step;
  std::string text = fmt::format("{} step{}", steps, steps == 1 ? "" : "s");
  if (e.tokens > 0) text += fmt::format(", {} tokens", human_count(static_cast<double>(e.tokens)));
  text += " in " + human_duration(e.seconds);
  if (std::isfinite(e.loss)) text += fmt::format(", training loss {:.3f}", e.loss);
  if (std::isfinite(e.validation_loss)) text += fmt::format(", validation loss {:.3f}", e.validation_loss);
  return text;
}

}  // namespace

RunEnd run_end(const TrainerView& view, double seconds) {
  const int64_t done = view.step.step - view.info.resumed_step;
  return {.first_step = view.info.resumed_step,
          .step = view.step.step,
          .total = view.info.total_steps,
          .tokens = done * view.info.tokens_per_step,
          .seconds = seconds,
          .loss = done > 0 ? view.step.loss : std::numeric_limits<double>::quiet_NaN(),
          .validation_loss = view.eval.step > 0 ? view.eval.loss : std::numeric_limits<double>::quiet_NaN(),
          .checkpoint = view.save.folder,
          .run = view.info.directory,
          .of_text = view.info.tokens_per_step > 0,
          .interrupted = view.stopping,
          .reason = view.stop_reason};
}

std::vector<std::string> closing_lines(const RunEnd& e) {
  if (e.interrupted) {
    const std::string why = e.reason.empty() ? "Interrupted" : "Stopped by " + e.reason;
    if (e.step == e.first_step) return {fmt::format("{} before the first step: there is nothing to save", why)};
    if (e.checkpoint.empty()) return {fmt::format("{} after step {} of {}, nothing was saved", why, e.step, e.total)};
    return {fmt::format("{} after step {} of {}, checkpoint saved: {}", why, e.step, e.total, figures(e)),
            fmt::format("Checkpoint: {}", printable_line(e.checkpoint.string())), "Repeat the command to resume"};
  }
  std::vector<std::string> lines = {fmt::format("Finished step {} of {}: {}", e.step, e.total, figures(e))};
  if (!e.checkpoint.empty()) lines.push_back(fmt::format("Checkpoint: {}", printable_line(e.checkpoint.string())));
  const std::string run = shell_word(e.run.string());
  std::string next = "Next: partita plot " + run;
  if (e.of_text) next += fmt::format("; partita generate {} --prompt TEXT; partita eval {} --data FILE", run, run);
  lines.push_back(std::move(next));
  return lines;
}

}  // namespace partita::internal
