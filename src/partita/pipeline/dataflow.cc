#include "partita/pipeline/dataflow.h"

#include "partita/base/error.h"

namespace partita::internal {

std::vector<StageResult> needs_of(const PipelineAction& action, int rank, const StagePlacement& placement) {
  PARTITA_CHECK(!is_message(action.kind));
  const int stage = placement.stage(rank, action.chunk);
  std::vector<StageResult> needs;
  if (action.kind == ActionKind::forward) {
    if (stage > 0) needs.push_back({false, stage - 1, action.micro_batch});
  } else if (action.kind == ActionKind::weight_gradient) {
    needs.push_back({true, stage, action.micro_batch});
  } else {
    needs.push_back({false, stage, action.micro_batch});
    if (stage + 1 < placement.stages()) needs.push_back({true, stage + 1, action.micro_batch});
  }
  return needs;
}

std::optional<StageResult> result_of(const PipelineAction& action, int rank, const StagePlacement& placement) {
  if (action.kind != ActionKind::forward && !makes_gradient(action.kind)) return std::nullopt;
  return StageResult{makes_gradient(action.kind), placement.stage(rank, action.chunk), action.micro_batch};
}

std::span<const PipelineAction> step_at(const ActionList& list, size_t index) {
  return std::span(list).subspan(index, list[index].with_next ? 2 : 1);
}

std::vector<Stuck> run_lists(const ActionLists& lists, const StagePlacement& placement,
                             const std::function<void(int rank, std::span<const PipelineAction> step)>& visit) {
  ResultTable<char> made(lists, placement);
  const auto missing = [&](std::span<const PipelineAction> step, int rank) -> std::optional<StageResult> {
    for (const PipelineAction& action : step)
      for (const StageResult& need : needs_of(action, rank, placement))
        if (!made[need]) return need;
    return std::nullopt;
  };
  std::vector<size_t> next(lists.size());
  std::vector<Stuck> stuck;
  for (bool progress = true; progress;) {
    progress = false;
    stuck.clear();
    for (size_t r = 0; r < lists.size(); ++r) {
      if (next[r] == lists[r].size()) continue;
      const int rank = static_cast<int>(r);
      const std::span<const PipelineAction> step = step_at(lists[r], next[r]);
      if (const auto need = missing(step, rank)) {
        stuck.push_back({rank, next[r], *need});
        continue;
      }
      visit(rank, step);
      for (const PipelineAction& action : step)
        if (const auto result = result_of(action, rank, placement)) made[*result] = 1;
      next[r] += step.size();
      progress = true;
    }
  }
  return stuck;
}

}  // namespace partita::internal
