#include "partita/train/run_loop.h"

#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/number.h"
#include "partita/config/save_interval.h"
#include "partita/device/stream.h"
#include "partita/train/interrupt.h"
#include "partita/train/run_end.h"

namespace partita::internal {
namespace {

// After this many consecutive skipped steps the run has diverged, and further steps change nothing.
constexpr int64_t kMostSkippedInARow = 10;

constexpr std::string_view kNextStep = "; trying again after the next step";

RunInfo at(RunInfo info, const RunCounts& counts) {
  info.resumed_step = counts.step;
  info.resumed_samples = counts.consumed_samples;
  return info;
}

}  // namespace

RunLoop::RunLoop(const Config& config, RunInfo info, Hooks hooks, const Ranks& ranks, RunFolder* folder,
                 const RunCounts& counts)
    : config_(config),
      info_(at(std::move(info), counts)),
      hooks_(std::move(hooks)),
      ranks_(ranks.all),
      folder_(folder),
      counts_(counts),
      view_{.config = config_, .info = info_},
      saver_({.root = checkpoints_folder(config.run.directory),
              .checkpoint = config.checkpoint,
              .device = ranks.device,
              .local_rank = ranks.local_rank,
              .local_ranks = ranks.local_ranks},
             ranks.all),
      memory_({.run = config.run.directory, .every = config.checkpoint.memory_every, .local_ranks = ranks.local_ranks},
              ranks.all),
      schedule_(config.checkpoint.every, save_interval(config.checkpoint.interval), ranks.all.size()) {
  view_.step.step = counts.step;
  view_.step.consumed_samples = counts.consumed_samples;
}

void RunLoop::run(const RunWork& work) {
  hooks_.before_run(view_);
  view_.stopping = exchange().stops;
  const Timer timer;
  since_save_ = Timer();
  while (counts_.step < config_.train.steps && !view_.stopping) {
    notice_interrupts();
    take_step(work);
    const bool last = counts_.step == config_.train.steps;
    if (config_.eval.every > 0 && (counts_.step % config_.eval.every == 0 || last)) validate(work);
    if (last) break;
    const Signals all = exchange();
    view_.stopping = all.stops;
    if (!all.busy) go_on();
    const bool due = schedule_.is_due(counts_.step) || all.late;
    if (due && !(all.stops && config_.checkpoint.on_interrupt))
      save(work);
    else if (!all.stops && memory_.is_due(counts_.step))
      memory_.save(counts_.step, work.contents(counts_));
  }
  const bool ends = counts_.step == config_.train.steps || config_.checkpoint.on_interrupt;
  if (ends && counts_.step > info_.resumed_step)
    save_at_end(work);
  else if (const std::string why = failure_of([this] { return saver_.finish(); }); !why.empty())
    warn(why, "");
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
  memory_.count(counts_.step);
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
  // Writing may take longer than the steps in between.
  if (const std::string why = failure_of([this] { return saver_.finish(); }); !why.empty())
    note_failure(why, fmt::format("; the checkpoint of step {} takes its place", counts_.step));
  since_save_ = Timer();
  saving_ = counts_.step;
  schedule_.begun(saving_);
  CheckpointContents contents = work.contents(counts_);
  const std::string why =
      failure_of([&] { return saver_.begin(saving_, std::move(contents), work.hold_updates, since_save_); });
  if (!why.empty()) note_failure(why, kNextStep);
}

// The last checkpoint must be there when the run ends.
void RunLoop::save_at_end(const RunWork& work) {
  if (folder_) folder_->lock().require();
  if (const std::string why = failure_of([this] { return saver_.finish(); }); !why.empty()) warn(why, "");
  saving_ = counts_.step;
  const CheckpointContents contents = work.contents(counts_);
  const Save now = [&] { return std::optional(saver_.save_now(saving_, contents)); };
  if (const std::string why = failure_of(now); !why.empty()) {
    warn(why, "; trying again now");
    if (const std::string again = failure_of(now); !again.empty()) throw Error(again);
  }
}

void RunLoop::go_on() {
  if (const std::string why = failure_of([this] { return saver_.advance(); }); !why.empty())
    note_failure(why, kNextStep);
}

// Any other error than one that all ranks know of ends the run, also one of a hook.
std::string RunLoop::failure_of(const Save& save) {
  std::optional<SaveMetrics> done;
  try {
    done = save();
  } catch (const AgreedError& error) {
    return error.what();
  }
  if (!done) return {};
  schedule_.saved(done->stall_seconds);
  view_.save = *done;
  hooks_.after_save(view_);
  return {};
}

void RunLoop::note_failure(const std::string& why, std::string_view repetition) {
  schedule_.failed(counts_.step, why);
  warn(why, schedule_.repeats() ? repetition : "");
}

void RunLoop::warn(const std::string& why, std::string_view what_next) const {
  if (ranks_.rank() == 0) log::warn("could not save the checkpoint of step {}: {}{}", saving_, why, what_next);
}

// Sets the message shown when a signal arrives during a step.
void RunLoop::notice_interrupts() const {
  if (ranks_.rank() != 0) return;
  const char* clear = log::terminal_width() > 0 ? "\r\x1b[K" : "";  // the progress bar's line
  set_interrupt_notice(clear + interrupt_notice(view_.step.seconds, config_.checkpoint.on_interrupt) + "\n");
}

// Signals may reach only one rank, or ranks at different steps; all must stop after the same step. Clocks differ, too:
// that of rank 0 counts.
RunLoop::Signals RunLoop::exchange() {
  if (folder_ && interrupt_requested()) folder_->lock().say_stopping();
  const Signals own{.stops = interrupt_requested() || !view_.stop_reason.empty(),
                    .late = ranks_.rank() == 0 && schedule_.is_late(since_save_.seconds()),
                    .busy = !saver_.is_idle()};
  at::Tensor all = at::zeros({3}, at::kInt);
  auto* flags = all.data_ptr<int32_t>();
  flags[0] = own.stops, flags[1] = own.late, flags[2] = own.busy;
  CpuStream stream;
  ranks_.all_reduce(all, Reduce::max, stream).wait();
  return {.stops = flags[0] != 0, .late = flags[1] != 0, .busy = flags[2] != 0};
}

}  // namespace partita::internal
