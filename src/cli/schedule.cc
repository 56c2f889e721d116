// partita schedule: the stages of a pipeline, and the order of their passes over time.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>

#include "cli/commands.h"
#include "cli/job_ranks.h"
#include "cli/options.h"
#include "cli/output.h"
#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/printable.h"
#include "partita/pipeline/open_weights.h"
#include "partita/pipeline/slots.h"
#include "partita/pipeline/timeline.h"
#include "partita/pipeline/timeline_svg.h"
#include "partita/pipeline/timeline_text.h"
#include "partita/train/build_model.h"
#include "partita/train/measured_timeline.h"
#include "partita/train/stages.h"

namespace partita::cli {
using namespace internal;

namespace {

constexpr int kMeasuredColumns = 150;  // of a measured timeline, whose actions all take different times
constexpr int kMostColumns = 400;
constexpr const char* kEstimated = "forward passes of a layer";  // the unit of estimated times

struct Arguments {
  std::filesystem::path file, svg;
  int64_t ranks = 0;
};

// "embedding, layers 0-3", of blocks [first, end) of a model.
std::string blocks_text(int first, int end, int64_t layers) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (first == 0) add("embedding");
  const int64_t low = std::max(first - 1, 0), high = std::min<int64_t>(end - 1, layers) - 1;
  if (low == high) add(fmt::format("layer {}", low));
  if (low < high) add(fmt::format("layers {}-{}", low, high));
  if (end == layers + 2) add("head");
  return text;
}

void show(const Timeline& timeline, const TextOptions& options) {
  const TimelineText drawn = timeline_text(timeline, options);
  put(drawn.text);
  if (!drawn.whole) put_line("//: the middle of the step is left out; --svg FILE draws all of it");
}

// The measured timeline of the run, if it was profiled with this pipeline; else says what was different.
std::optional<Timeline> measured_timeline(const Config& c, const PipelineShape& shape) {
  std::optional<MeasuredStep> step = read_timeline(c.run.directory / "timeline.json");
  if (!step) return {};
  const std::string run = printable_line(c.run.directory.string());
  if (const std::string difference = shape_difference(step->shape, shape); !difference.empty()) {
    put_line("\n{} was profiled with {}: its timeline is not shown", run, difference);
    return {};
  }
  put_line("\nMeasured in a step of {}: {}", run, waiting_text(step->timeline));
  show(step->timeline,
       {.chunks = shape.chunks, .columns = kMeasuredColumns, .most_columns = kMostColumns, .unit = "s"});
  return std::move(step->timeline);
}

void run(const Arguments& a, const std::vector<std::string>& settings) {
  ConfigSources sources;
  Config c = load_config(a.file, settings, &sources);
  complete_model(c);
  if (c.parallel.pipeline < 2)
    fail("parallel.pipeline is {}: a pipeline needs at least two ranks, add --parallel.pipeline=2",
         c.parallel.pipeline);
  const int64_t ranks = job_ranks(c.parallel, a.ranks);
  validate_step(c, ranks, &sources);
  check_fp8_sizes(c);
  const PipelineShape shape{.schedule = c.parallel.schedule,
                            .ranks = static_cast<int>(c.parallel.pipeline),
                            .chunks = static_cast<int>(pipeline_chunks(c)),
                            .micro_batches = static_cast<int>(accumulation_steps(c, ranks))};
  const StagePlacement placement(shape);
  const std::vector<int> first = stage_blocks(c);
  const std::vector<double> blocks = block_times(c);
  PipelineTimes times;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    const auto s = static_cast<size_t>(stage);
    const double time = std::accumulate(blocks.begin() + first[s], blocks.begin() + first[s + 1], 0.0);
    put_line("stage {} on rank {}: {}", stage, placement.rank(stage),
             blocks_text(first[s], first[s + 1], c.model.layers));
    times.stages.push_back({.forward = time, .input_gradient = time, .weight_gradient = time});
  }
  const ActionLists lists = capped_actions(shape, static_cast<int>(c.parallel.open_weights));
  const Timeline timeline = simulate(lists, placement, times);
  const std::string title = fmt::format("{}, {} pipeline ranks, {} micro-batch{}", name_of(shape.schedule), shape.ranks,
                                        shape.micro_batches, shape.micro_batches == 1 ? "" : "es");
  put_line("\n{}: {}", title, waiting_text(timeline));
  show(timeline, {.chunks = shape.chunks, .most_columns = kMostColumns, .unit = kEstimated});
  put_line("");
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int sets = assign_slots(lists[static_cast<size_t>(rank)]).slots;
    put_line("rank {} holds at most {} set{} of activations (one per stage and micro-batch)", rank, sets,
             sets == 1 ? "" : "s");
  }
  const std::optional<Timeline> measured = measured_timeline(c, shape);
  if (a.svg.empty()) return;
  std::string image = timeline_svg(timeline, shape.chunks, {.title = fmt::format("{}; time: {}", title, kEstimated)});
  if (measured) image = stacked_svg({image, timeline_svg(*measured, shape.chunks, {.title = "measured; time: s"})});
  write_file(a.svg, image);
  put_line("{}", printable_line(a.svg.string()));
}

}  // namespace

void add_schedule_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("schedule", "Show the stages of a pipeline and when each rank computes what");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "CONFIG", a->file, "CONFIG", "Configuration file in TOML")->required();
  add_number(*command, "--ranks", a->ranks, at_least(1),
             "Ranks of the job (default: parallel.tensor x context x pipeline x data)")
      ->default_str("");
  add_text(*command, "--svg", a->svg, "FILE", "Also draw the timeline into FILE");
  command->allow_extras();
  command->footer(
      "F0: forward of micro-batch 0; B0: its backward; I0 and W0: its input and weight gradients; dots: the rank "
      "waits.\n"
      "With two stages per rank, those of the second are in lower case; with three or more, the number of the stage "
      "is\n"
      "in front. Times are estimates: a layer takes 1, the head as much as the layers with its FLOPs; a forward, an\n"
      "input gradient and a weight gradient take the same; messages take no time.\n"
      "After a run with --profile, the same command with its --run.directory also shows a step as it was measured.\n\n"
      "Example: partita schedule my.toml --parallel.pipeline=4 --parallel.schedule=interleaved --svg schedule.svg");
  command->callback([command, a] { run(*a, command->remaining()); });
}

}  // namespace partita::cli
