// partita bench recompute: memory saved and time added by each recompute mode.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "cli/bench_job.h"
#include "partita/base/file.h"
#include "partita/base/log.h"

namespace partita::cli {
using namespace internal;

namespace {

// Relative increase of the step time: the median over pairs of consecutive steps.
double time_added(const BenchModel& model, const BenchModel& none) {
  std::vector<double> ratios;
  for (size_t i = 0; i < model.seconds().size(); ++i) ratios.push_back(model.seconds()[i] / none.seconds()[i] - 1);
  return median(ratios);
}

}  // namespace

// The four modes alternate, one step each, because a machine's speed drifts by more than the differences measured.
void bench_recompute(const BenchArguments& a) {
  BenchJob job(a);
  std::vector<BenchModel> models;
  for (size_t i = 0; i < EnumNames<Recompute>::kNames.size(); ++i) models.emplace_back(job, static_cast<Recompute>(i));
  for (int64_t k = 0; k < a.warmup + a.steps; ++k)
    for (BenchModel& model : models) model.step();

  const BenchModel& none = models.front();
  if (!a.json) {
    const Config& c = job.config;
    log::print(fmt::format("{}, {} layers of {} channels, {} x {} tokens, {}, ranks: {}, threads: {}, steps: {}",
                           name_of(c.model.kind), c.model.layers, c.model.hidden_size, c.train.micro_batch,
                           c.train.sequence_length, name_of(c.precision.compute), job.world.size(),
                           at::get_num_threads(), a.steps));
    log::print(fmt::format("{:<10} {:>12} {:>14} {:>8} {:>10} {:>8} {:>10}", "recompute", "activations", "memory saved",
                           "", "step", "added", "loss"));
  }
  for (size_t i = 0; i < models.size(); ++i) {
    const BenchModel& model = models[i];
    const int64_t saved = none.activation_bytes() - model.activation_bytes();
    const double share = static_cast<double>(saved) / static_cast<double>(none.activation_bytes());
    const double added = time_added(model, none);
    if (a.json) {
      nlohmann::ordered_json line = model.json();
      line["saved_bytes"] = saved;
      line["time_added"] = added;
      log::print(line.dump());
    } else {
      log::print(fmt::format("{:<10} {:>12} {:>14} {:>7.1f}% {:>7.1f} ms {:>7.1f}% {:>10.6f}",
                             name_of(static_cast<Recompute>(i)), human_bytes(model.activation_bytes()),
                             human_bytes(saved), 100 * share, 1e3 * median(model.seconds()), 100 * added,
                             model.losses().back()));
    }
  }
}

}  // namespace partita::cli
