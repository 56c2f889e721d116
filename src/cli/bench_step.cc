// partita bench step: the speed of a training step.
#include <algorithm>

#include "cli/bench_job.h"
#include "partita/base/log.h"
#include "partita/base/process_stat.h"
#include "partita/base/timer.h"

namespace partita::cli {
using namespace internal;

void bench_step(const BenchArguments& a) {
  const double before = process_age();
  const Timer timer;
  BenchJob job(a);
  BenchModel model(job, job.config.memory.recompute);
  model.step();
  const double first = before + timer.seconds();
  model.tune();
  while (model.steps() < a.warmup + a.steps) model.step();
  nlohmann::ordered_json line = model.json();
  line["first_step_s"] = first;
  log::print(line.dump());
  model.profile();
}

}  // namespace partita::cli
