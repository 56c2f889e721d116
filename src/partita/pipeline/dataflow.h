// Runs the action lists of all ranks of a pipeline against each other: what an action waits for, and which lists get
// stuck. Pure. Messages, checks and simulated times are derived from it.
//
//   const std::vector<Stuck> stuck = run_lists(lists, placement, [&](int rank, std::span<const PipelineAction> step) {
//     ...                      // all that `step`, an action or a pair that runs at the same time, needs exists
//   });                        // empty: all lists ran to their end
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "partita/pipeline/action.h"
#include "partita/pipeline/placement.h"
#include "partita/pipeline/stage_result.h"

namespace partita::internal {

// What an action needs before it starts: the output of the stage before; for backward passes, the stage's own forward
// and the gradient from the stage after; for weight gradients, the stage's input gradient.
[[nodiscard]] std::vector<StageResult> needs_of(const PipelineAction&, int rank, const StagePlacement&);
// What it leaves; weight gradients leave nothing for others.
[[nodiscard]] std::optional<StageResult> result_of(const PipelineAction&, int rank, const StagePlacement&);

// The actions that run together with the one at `index`: itself, or the pair that it starts.
[[nodiscard]] std::span<const PipelineAction> step_at(const ActionList&, size_t index);

struct Stuck {  // a rank that does not get further
  int rank = 0;
  size_t index = 0;     // of the action in its list
  StageResult missing;  // the first thing that it waits for in vain
};

// In rounds: in each, every rank in order whose next step has what it needs takes this step. Lists without messages.
std::vector<Stuck> run_lists(const ActionLists&, const StagePlacement&,
                             const std::function<void(int rank, std::span<const PipelineAction> step)>& visit);

}  // namespace partita::internal
