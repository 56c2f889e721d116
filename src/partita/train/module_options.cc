#include "partita/train/module_options.h"

#include <fmt/format.h>

#include <string_view>

#include "partita/base/error.h"
#include "partita/config/save_interval.h"

namespace partita::internal {
namespace {

void require_at_least(int64_t least, std::string_view name, int64_t value) {
  if (value < least) fail("ModuleTraining: {} is {}, expected at least {}", name, value, least);
}

}  // namespace

void validate(const ModuleTraining& o, int ranks, int micro_batches) {
  if (o.run.directory.empty()) fail("ModuleTraining: run.directory is empty, expected a folder");
  require_at_least(1, "steps", o.steps);
  require_at_least(1, "global_batch", o.global_batch);
  require_at_least(0, "evaluate_every", o.evaluate_every);
  require_at_least(0, "checkpoint.every", o.checkpoint.every);
  require_at_least(0, "checkpoint.keep_last", o.checkpoint.keep_last);
  require_at_least(0, "checkpoint.keep_every", o.checkpoint.keep_every);
  require_at_least(0, "checkpoint.keep_hours", o.checkpoint.keep_hours);
  if (o.checkpoint.keep_hours > 1'000'000)
    fail("ModuleTraining: checkpoint.keep_hours is {}, expected at most 1000000", o.checkpoint.keep_hours);
  require_at_least(0, "checkpoint.writers", o.checkpoint.writers);
  require_at_least(0, "checkpoint.memory_every", o.checkpoint.memory_every);
  (void)save_interval(o.checkpoint.interval);
  require_at_least(1, "log.every", o.log.every);
  if (o.log.profile_steps != 0)
    fail("ModuleTraining: log.profile_steps is for models of Partita: leave it 0, and use torch's profiler");
  if (o.checkpoint.resume.empty()) fail("ModuleTraining: checkpoint.resume is empty, expected auto, never or a path");
  if (!(o.schedule.max >= 0) || !(o.schedule.min >= 0) || o.schedule.min > o.schedule.max)
    fail("ModuleTraining: schedule.max is {} and schedule.min {}, expected max >= min >= 0", o.schedule.max,
         o.schedule.min);
  require_at_least(0, "schedule.warmup", o.schedule.warmup);
  require_at_least(0, "schedule.length", o.schedule.length);
  require_at_least(0, "schedule.wsd_decay", o.schedule.wsd_decay);
  const Schedule schedule = make_schedule(config_of(o));
  const int64_t tail = schedule.kind == ScheduleKind::warmup_stable_decay ? schedule.wsd_decay : 0;
  if (schedule.warmup + tail > schedule.length)
    fail("ModuleTraining: schedule.warmup {} and wsd_decay {} are together longer than the schedule's {} steps",
         schedule.warmup, tail, schedule.length);
  if (o.global_batch % (int64_t{ranks} * micro_batches) != 0)
    fail(
        "ModuleTraining: global_batch is {}, which {} rank{} with {} micro-batch{} each do not divide: choose a "
        "multiple of {}",
        o.global_batch, ranks, ranks == 1 ? "" : "s", micro_batches, micro_batches == 1 ? "" : "es",
        int64_t{ranks} * micro_batches);
}

Config config_of(const ModuleTraining& o) {
  Config config;
  config.run = o.run;
  config.train.steps = o.steps;
  config.train.global_batch = o.global_batch;
  config.train.seed = o.seed;
  config.optimizer.learning_rate = o.schedule.max;
  config.optimizer.min_learning_rate = o.schedule.min;
  config.schedule = {.kind = o.schedule.kind,
                     .warmup = o.schedule.warmup,
                     .decay = o.schedule.length,
                     .wsd_decay = o.schedule.wsd_decay,
                     .wsd_style = o.schedule.wsd_style};
  config.eval.every = o.evaluate_every;
  config.checkpoint = o.checkpoint;
  config.log = o.log;
  return config;
}

std::string settings_text(const ModuleTraining& o) {
  std::string text = fmt::format(
      "run.directory = {}\nsteps = {}\nglobal_batch = {}\nseed = {}\nevaluate_every = {}\ncheckpoint.every = {}\n",
      o.run.directory.string(), o.steps, o.global_batch, o.seed, o.evaluate_every, o.checkpoint.every);
  if (o.schedule.max > 0) {
    const Schedule s = make_schedule(config_of(o));
    text += fmt::format("schedule = {}, from {} to {}, warmup {}, length {}\n", name_of(s.kind), s.max, s.min, s.warmup,
                        s.length);
  }
  return text;
}

}  // namespace partita::internal
