#include "partita/train/measured_timeline.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/profile/profile.h"

namespace partita::internal {
namespace {

using Json = nlohmann::ordered_json;

ActionKind kind_of(const Action& a) {
  if (a.pass == Pass::forward) return ActionKind::forward;
  if (a.gradients == Gradients::inputs) return ActionKind::input_gradient;
  return a.gradients == Gradients::weights ? ActionKind::weight_gradient : ActionKind::backward;
}

Json shape_json(const PipelineShape& shape) {
  return {{"schedule", name_of(shape.schedule)},
          {"ranks", shape.ranks},
          {"chunks", shape.chunks},
          {"micro_batches", shape.micro_batches}};
}

PipelineShape shape_of(const Json& file) {
  const std::string name = file.at("schedule").get<std::string>();
  const std::optional<PipelineSchedule> schedule = find_enum<PipelineSchedule>(name);
  if (!schedule) fail("the timeline is of schedule {}, which this version does not have: profile the run again", name);
  return {.schedule = *schedule,
          .ranks = file.at("ranks").get<int>(),
          .chunks = file.at("chunks").get<int>(),
          .micro_batches = file.at("micro_batches").get<int>()};
}

Json spans_json(const std::vector<TimedAction>& actions) {
  Json spans = Json::array();
  for (const TimedAction& a : actions)
    spans.push_back({static_cast<int>(kind_of(a.action)), a.action.chunk, a.action.micro_batch, a.begin, a.end});
  return spans;
}

}  // namespace

std::optional<MeasuredStep> read_timeline(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  try {
    const Json file = Json::parse(read_file(path));
    MeasuredStep step{.shape = shape_of(file), .timeline = {}};
    Timeline& timeline = step.timeline;
    for (const Json& spans : file.at("actions")) {
      timeline.ranks.emplace_back();
      timeline.busy.push_back(0);
      for (const Json& span : spans) {
        const Timeline::Span s{.action = {.kind = static_cast<ActionKind>(span.at(0).get<int>()),
                                          .chunk = span.at(1).get<int>(),
                                          .micro_batch = span.at(2).get<int>()},
                               .start = span.at(3).get<double>(),
                               .end = span.at(4).get<double>()};
        timeline.ranks.back().push_back(s);
        timeline.busy.back() += s.end - s.start;
        timeline.makespan = std::max(timeline.makespan, s.end);
      }
    }
    if (timeline.makespan > 0) timeline.bubble = 1 - std::ranges::max(timeline.busy) / timeline.makespan;
    return step;
  } catch (const Json::exception& problem) {
    fail("{} is no timeline of a run: {}", path.string(), problem.what());
  }
}

std::string shape_difference(const PipelineShape& measured, const PipelineShape& other) {
  std::vector<std::string> parts;
  if (measured.schedule != other.schedule)
    parts.push_back(fmt::format("schedule {}, not {}", name_of(measured.schedule), name_of(other.schedule)));
  const auto add = [&](int found, int wanted, const char* what) {
    if (found != wanted) parts.push_back(fmt::format("{} {}, not {}", found, what, wanted));
  };
  add(measured.ranks, other.ranks, measured.ranks == 1 ? "pipeline rank" : "pipeline ranks");
  // Another schedule mostly has another number of stages by itself.
  if (measured.schedule == other.schedule)
    add(measured.chunks, other.chunks, measured.chunks == 1 ? "stage per rank" : "stages per rank");
  add(measured.micro_batches, other.micro_batches, measured.micro_batches == 1 ? "micro-batch" : "micro-batches");
  return fmt::format("{}", fmt::join(parts, "; "));
}

void MeasuredTimeline::before_step() {
  const int64_t last = Profiler::Options().after + config_.log.profile_steps - 1;
  if (config_.parallel.pipeline > 1 && config_.log.profile_steps > 0) engine_.time_actions(step_ == last);
}

void MeasuredTimeline::after_step() {
  ++step_;
  const std::vector<TimedAction> own = engine_.action_times();
  if (own.empty()) return;
  std::vector<std::string> texts = gather_strings(mesh_.pipeline(), spans_json(own).dump());
  if (mesh_.world().rank() != 0) return;
  Json file = shape_json(engine_.pipeline().shape);
  for (const std::string& text : texts) file["actions"].push_back(Json::parse(text));
  write_file(config_.run.directory / "timeline.json", file.dump() + "\n");
}

}  // namespace partita::internal
