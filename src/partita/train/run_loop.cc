#include "partita/train/run_loop.h"

#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/number.h"
#include "partita/base/timer.h"
#include "partita/device/stream.h"
#include "partita/train/interrupt.h"
#include "partita/train/run_end.h"

namespace partita::internal {
namespace {

// After this many consecutive skipped steps the run has diverged, and further steps change nothing.
constexpr int64_t kMostSkippedInARow = 10;

RunInfo at(RunInfo info, const RunCounts& counts) {
  info.resumed_step = counts.step;
  info.resumed_samples = counts.consumed_samples;
  return info;
}

}  // namespace

RunLoop::RunLoop(const Config& config, RunInfo info, Hooks hooks, Communicator& ranks, RunFolder* folder,
                 const RunCounts& counts)
    : config_(config),
      info_(at(std::move(info), counts)),
      hooks_(std::move(hooks)),
      ranks_(ranks),
      folder_(folder),
      counts_(counts),
      view_{.config = config_, .info = info_} {
  view_.step.step = counts.step;
  view_.step.consumed_samples = counts.consumed_samples;
}

void RunLoop::run(const RunWork& work) {
  hooks_.before_run(view_);
  view_.stopping = everyone_stops();
  const Timer timer;
  while (counts_.step < config_.train.steps && !view_.stopping) {
    notice_interrupts();
    take_step(work);
    const bool last = counts_.step == config_.train.steps;
    if (config_.eval.every > 0 && (counts_.step % config_.eval.every == 0 || last)) validate(work);
    view_.stopping = !last && everyone_stops();
    const bool due = config_.checkpoint.every > 0 && counts_.step % config_.checkpoint.every == 0;
    if (due || last || (view_.stopping && config_.checkpoint.on_interrupt)) save(work);
  }
  seconds_ = timer.seconds();
  hooks_.after_run(view_);
}

void RunLoop::close() const {
  for (const std::string& line : closing_lines(run_end(view_, seconds_))) log::info("{}", line);
}

void RunLoop::take_step(const RunWork& work) {
  const Timer timer;
  const StepOutcome r = work.step(counts_);
  if (folder_) folder_->lock().require();
  ++counts_.step;
  counts_.consumed_samples += config_.train.global_batch;
  if (!std::isfinite(r.loss)) ++counts_.nan_steps;
  skipped_in_a_row_ = r.skipped ? skipped_in_a_row_ + 1 : 0;
  if (r.skipped) {
    ++counts_.skipped_steps;
    if (ranks_.rank() == 0)
      log::warn("step {}: the gradient norm is {}{}, nothing was updated", counts_.step, plain_nan(r.grad_norm),
                r.skipped_at);
  }
  view_.step = {.step = counts_.step,
                .consumed_samples = counts_.consumed_samples,
                .loss = r.loss,
                .grad_norm = r.grad_norm,
                .learning_rate = r.learning_rate,
                .seconds = timer.seconds(),
                .tokens = info_.tokens_per_step,
                .loss_scale = r.loss_scale,
                .skipped_steps = counts_.skipped_steps,
                .nan_steps = counts_.nan_steps,
                .memory_peak = r.memory_peak};
  hooks_.after_step(view_);
  if (skipped_in_a_row_ >= kMostSkippedInARow && r.may_diverge)
    fail(
        "the gradient was not finite in {} steps in a row, up to step {}: lower the learning rate, or look at the data "
        "around sample {}",
        skipped_in_a_row_, counts_.step, counts_.consumed_samples);
}

void RunLoop::validate(const RunWork& work) {
  const Timer timer;
  view_.eval = work.evaluate(counts_);
  view_.eval.step = counts_.step;
  view_.eval.consumed_samples = counts_.consumed_samples;
  view_.eval.seconds = timer.seconds();
  hooks_.after_eval(view_);
}

void RunLoop::save(const RunWork& work) {
  if (folder_) folder_->lock().require();
  view_.checkpoint = work.save(counts_);
  hooks_.after_save(view_);
}

// Sets the message shown when a signal arrives during a step.
void RunLoop::notice_interrupts() const {
  if (ranks_.rank() != 0) return;
  const char* clear = log::terminal_width() > 0 ? "\r\x1b[K" : "";  // the progress bar's line
  set_interrupt_notice(clear + interrupt_notice(view_.step.seconds, config_.checkpoint.on_interrupt) + "\n");
}

// Signals may reach only one rank, or ranks at different steps; all must stop after the same step.
bool RunLoop::everyone_stops() {
  if (folder_ && interrupt_requested()) folder_->lock().say_stopping();
  at::Tensor stop = at::zeros({1}, at::kInt);
  *stop.data_ptr<int32_t>() = interrupt_requested() || !view_.stop_reason.empty() ? 1 : 0;
  CpuStream stream;
  ranks_.all_reduce(stop, Reduce::max, stream).wait();
  return *stop.data_ptr<int32_t>() != 0;
}

}  // namespace partita::internal
