#include "partita/pipeline/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/pipeline/dataflow.h"

namespace partita::internal {
namespace {

void check_time(const char* what, double time) {
  if (!std::isfinite(time) || time < 0) fail("pipeline: {} takes {}: expected a time of at least 0", what, time);
}

void check_times(const PipelineTimes& times, int stages) {
  if (times.stages.size() != 1 && times.stages.size() != static_cast<size_t>(stages))
    fail("pipeline: times of {} stages for {} stages: expected one for each, or one for all", times.stages.size(),
         stages);
  for (const StageTimes& stage : times.stages) {
    check_time("a forward pass", stage.forward);
    check_time("an input gradient", stage.input_gradient);
    check_time("a weight gradient", stage.weight_gradient);
  }
  check_time("a hop", times.hop);
  if (!(times.overlap >= 0 && times.overlap <= 1))
    fail("pipeline: overlap is {}: expected a part, from 0 to 1", times.overlap);
}

double duration(const PipelineAction& action, const StageTimes& times) {
  switch (action.kind) {
    case ActionKind::forward:
      return times.forward;
    case ActionKind::backward:
      return times.input_gradient + times.weight_gradient;
    case ActionKind::input_gradient:
      return times.input_gradient;
    default:
      return times.weight_gradient;
  }
}

}  // namespace

Timeline simulate(const ActionLists& lists, const StagePlacement& placement, const PipelineTimes& times) {
  check_times(times, placement.stages());
  Timeline timeline;
  timeline.ranks.resize(lists.size());
  timeline.busy.resize(lists.size());
  std::vector<double> free_at(lists.size());  // [rank]
  ResultTable<double> made_at(lists, placement);
  const auto stuck = run_lists(lists, placement, [&](int rank, std::span<const PipelineAction> step) {
    const auto r = static_cast<size_t>(rank);
    double start = free_at[r], together = 0, shorter = std::numeric_limits<double>::infinity();
    for (const PipelineAction& action : step) {
      for (const StageResult& need : needs_of(action, rank, placement))
        start = std::max(start, made_at[need] + (placement.rank(need.stage) == rank ? 0 : times.hop));
      const auto stage = static_cast<size_t>(placement.stage(rank, action.chunk));
      const double time = duration(action, times.stages[times.stages.size() == 1 ? 0 : stage]);
      together += time;
      shorter = std::min(shorter, time);
    }
    if (step.size() == 2) together -= times.overlap * shorter;
    const double end = start + together;
    for (const PipelineAction& action : step) {
      if (const auto result = result_of(action, rank, placement)) made_at[*result] = end;
      timeline.ranks[r].push_back({action, start, end});
    }
    timeline.busy[r] += together;
    free_at[r] = end;
  });
  PARTITA_CHECK(stuck.empty(), "rank {} waits for {}", stuck[0].rank, result_name(stuck[0].missing, placement));

  timeline.makespan = *std::max_element(free_at.begin(), free_at.end());
  if (timeline.makespan > 0)
    timeline.bubble = 1 - *std::max_element(timeline.busy.begin(), timeline.busy.end()) / timeline.makespan;
  return timeline;
}

}  // namespace partita::internal
