#include "partita/pipeline/dataflow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

class Results {
 public:
  Results(const ActionLists& lists, const StagePlacement& placement) : placement_(placement) {
    for (const ActionList& list : lists)
      for (const PipelineAction& action : list) micro_batches_ = std::max(micro_batches_, action.micro_batch + 1);
    for (auto& made : made_) made.resize(static_cast<size_t>(placement.stages()) * static_cast<size_t>(micro_batches_));
  }

  void add(const PipelineAction& action, int rank) {
    const int stage = placement_.stage(rank, action.chunk);
    if (action.kind == ActionKind::forward) at({false, stage, action.micro_batch}) = true;
    if (makes_gradient(action.kind)) at({true, stage, action.micro_batch}) = true;
  }

  std::optional<StageResult> missing(std::span<const PipelineAction> step, int rank) {
    for (const PipelineAction& action : step)
      for (const StageResult& need : needs_of(action, rank, placement_))
        if (!at(need)) return need;
    return std::nullopt;
  }

 private:
  std::vector<bool>::reference at(const StageResult& result) {
    return made_[result.gradient ? 1 : 0][static_cast<size_t>(result.stage) * static_cast<size_t>(micro_batches_) +
                                          static_cast<size_t>(result.micro_batch)];
  }

  const StagePlacement& placement_;
  int micro_batches_ = 0;
  std::array<std::vector<bool>, 2> made_;  // [output, gradient][stage][micro-batch]
};

}  // namespace

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

std::string result_name(const StageResult& result, const StagePlacement& placement) {
  return fmt::format("the {} of stage {} (rank {}) for micro-batch {}", result.gradient ? "input gradient" : "output",
                     result.stage, placement.rank(result.stage), result.micro_batch);
}

std::span<const PipelineAction> step_at(const ActionList& list, size_t index) {
  return std::span(list).subspan(index, list[index].with_next ? 2 : 1);
}

std::vector<Stuck> run_lists(const ActionLists& lists, const StagePlacement& placement,
                             const std::function<void(int rank, std::span<const PipelineAction> step)>& visit) {
  Results results(lists, placement);
  std::vector<size_t> next(lists.size());
  std::vector<Stuck> stuck;
  for (bool progress = true; progress;) {
    progress = false;
    stuck.clear();
    for (size_t r = 0; r < lists.size(); ++r) {
      if (next[r] == lists[r].size()) continue;
      const int rank = static_cast<int>(r);
      const std::span<const PipelineAction> step = step_at(lists[r], next[r]);
      if (const auto missing = results.missing(step, rank)) {
        stuck.push_back({rank, next[r], *missing});
        continue;
      }
      visit(rank, step);
      for (const PipelineAction& action : step) results.add(action, rank);
      next[r] += step.size();
      progress = true;
    }
  }
  return stuck;
}

}  // namespace partita::internal
