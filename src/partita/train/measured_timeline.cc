#include "partita/train/measured_timeline.h"

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

Json spans_json(const std::vector<TimedAction>& actions) {
  Json spans = Json::array();
  for (const TimedAction& a : actions)
    spans.push_back({static_cast<int>(kind_of(a.action)), a.action.chunk, a.action.micro_batch, a.begin, a.end});
  return spans;
}

}  // namespace

std::optional<Timeline> read_timeline(const std::filesystem::path& path, const PipelineShape& shape) {
  if (!std::filesystem::exists(path)) return {};
  try {
    Json file = Json::parse(read_file(path));
    const Json actions = file.at("actions");
    file.erase("actions");
    if (file != shape_json(shape)) return {};
    Timeline timeline;
    for (const Json& spans : actions) {
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
    return timeline;
  } catch (const Json::exception& problem) {
    fail("{} is no timeline of a run: {}", path.string(), problem.what());
  }
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
