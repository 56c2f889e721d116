// partita schedule: the stages of a pipeline, and the order of their passes over time.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <numeric>

#include "cli/commands.h"
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

constexpr int kColumns = 150;  // of a measured timeline, whose actions all take different times

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

void run(const Arguments& a, const std::vector<std::string>& settings) {
  Config c = load_config(a.file, settings);
  complete_model(c);
  if (c.parallel.pipeline < 2)
    fail("parallel.pipeline is {}: a schedule has at least two ranks, add --parallel.pipeline=2", c.parallel.pipeline);
  const int64_t least = c.parallel.tensor * c.parallel.context * c.parallel.pipeline,
                ranks = a.ranks > 0 ? a.ranks : least;
  if (ranks % least != 0)
    fail("--ranks {} is not a multiple of parallel.tensor x context x pipeline, which is {}", ranks, least);
  const PipelineShape shape{.schedule = c.parallel.schedule,
                            .ranks = static_cast<int>(c.parallel.pipeline),
                            .chunks = static_cast<int>(pipeline_chunks(c)),
                            .micro_batches = static_cast<int>(accumulation_steps(c, ranks))};
  check_shape(shape);
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
  const std::string title =
      fmt::format("{}, {} ranks, {} micro-batches", name_of(shape.schedule), shape.ranks, shape.micro_batches);
  put_line("\n{}: the busiest rank waits {:.1f}% of the time", title, 100 * timeline.bubble);
  put_line("{}", timeline_text(timeline, shape.chunks));
  for (int rank = 0; rank < shape.ranks; ++rank)
    put_line("rank {} holds activations of {} stages and micro-batches at most", rank,
             assign_slots(lists[static_cast<size_t>(rank)]).slots);
  const std::optional<Timeline> measured = read_timeline(c.run.directory / "timeline.json", shape);
  if (measured) {
    put_line("\nMeasured in a step of {}: the busiest rank waited {:.1f}% of {:.3f} s",
             printable_line(c.run.directory.string()), 100 * measured->bubble, measured->makespan);
    put_line("{}", timeline_text(*measured, shape.chunks, kColumns));
  }
  if (a.svg.empty()) return;
  std::string image = timeline_svg(timeline, shape.chunks, {.title = title});
  if (measured) image = stacked_svg({image, timeline_svg(*measured, shape.chunks, {.title = "measured, seconds"})});
  write_file(a.svg, image);
  put_line("{}", printable_line(a.svg.string()));
}

}  // namespace

void add_schedule_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("schedule", "Show the stages of a pipeline and when each rank computes what");
  auto a = std::make_shared<Arguments>();
  add_text(*command, "CONFIG", a->file, "CONFIG", "Configuration file in TOML")->required();
  add_number(*command, "--ranks", a->ranks, at_least(1),
             "Ranks of the job (default: parallel.tensor x context x pipeline)")
      ->default_str("");
  add_text(*command, "--svg", a->svg, "FILE", "Draw the timeline into FILE, too");
  command->allow_extras();
  command->footer(
      "F0: forward of micro-batch 0; B0: its backward; I0 and W0: its input and weight gradients. Of two chunks per\n"
      "rank, the second has small letters. Times are modeled: a layer takes 1, the head as much as the layers with "
      "its\n"
      "FLOPs; a forward, an input gradient and a weight gradient take the same; messages take nothing.\n"
      "After 'partita train CONFIG --profile', the timeline of a step of that run is shown beneath.\n\n"
      "Example: partita schedule my.toml --parallel.pipeline=4 --parallel.schedule=interleaved --svg schedule.svg");
  command->callback([command, a] { run(*a, command->remaining()); });
}

}  // namespace partita::cli
