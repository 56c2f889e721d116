#include "partita/pipeline/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "partita/base/error.h"
#include "partita/pipeline/dataflow.h"
#include "partita/pipeline/rendezvous.h"

namespace partita::internal {
namespace {

// How far a chunk is with a micro-batch.
enum class Progress : uint8_t { nothing, forward, input_gradient, complete };

// The progress that the action needs, and what it leaves.
struct Transition {
  Progress before, after;
};

Transition transition(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return {Progress::nothing, Progress::forward};
    case ActionKind::backward:
      return {Progress::forward, Progress::complete};
    case ActionKind::input_gradient:
      return {Progress::forward, Progress::input_gradient};
    default:
      return {Progress::input_gradient, Progress::complete};
  }
}

const char* found(Progress progress) {
  switch (progress) {
    case Progress::nothing:
      return "before its forward pass";
    case Progress::forward:
      return "after its forward pass";
    case Progress::input_gradient:
      return "after its input gradient";
    case Progress::complete:
      break;
  }
  return "after its last pass";
}

void check_list(const ActionList& list, int rank, const PipelineShape& shape) {
  std::vector<Progress> progress(static_cast<size_t>(shape.chunks) * static_cast<size_t>(shape.micro_batches));
  for (size_t i = 0; i < list.size(); ++i) {
    const PipelineAction& action = list[i];
    const bool exists = action.chunk >= 0 && action.chunk < shape.chunks && action.micro_batch >= 0 &&
                        action.micro_batch < shape.micro_batches;
    if (!exists || is_message(action.kind))
      fail("pipeline: rank {}, action {} is {}; expected passes of {} chunks and {} micro-batches: list these only",
           rank, i, action_name(action), shape.chunks, shape.micro_batches);
    if (action.with_next && (action.kind != ActionKind::forward || i + 1 == list.size() ||
                             list[i + 1].kind != ActionKind::backward || list[i + 1].with_next))
      fail(
          "pipeline: rank {}, action {}, {}, is paired with the next one; expected a forward paired with a whole "
          "backward: clear with_next",
          rank, i, action_name(action));
    Progress& now = progress[static_cast<size_t>(action.chunk) * static_cast<size_t>(shape.micro_batches) +
                             static_cast<size_t>(action.micro_batch)];
    const auto [before, after] = transition(action.kind);
    if (now != before)
      fail("pipeline: rank {}, action {}, {}, stands {}: expected {}; list each pass once, in this order", rank, i,
           action_name(action), found(now), found(before));
    now = after;
  }
  const auto open = std::find_if(progress.begin(), progress.end(), [](Progress p) { return p != Progress::complete; });
  if (open != progress.end()) {
    const auto at = static_cast<int>(open - progress.begin());
    fail("pipeline: the list of rank {} ends with chunk {}, micro-batch {} {}: expected its backward pass too", rank,
         at / shape.micro_batches, at % shape.micro_batches, found(*open));
  }
}

// Who waits for what, from the first rank that is stuck to the one for which some rank before it waits.
std::string waits(const std::vector<Stuck>& stuck, const ActionLists& lists, const StagePlacement& placement) {
  std::vector<const Stuck*> of_rank(lists.size());
  for (const Stuck& s : stuck) of_rank[static_cast<size_t>(s.rank)] = &s;
  std::string text;
  for (auto rank = static_cast<size_t>(stuck[0].rank); of_rank[rank] != nullptr;) {
    const Stuck& s = *std::exchange(of_rank[rank], nullptr);
    text += fmt::format("{}rank {} waits at action {}, {}, for {}", text.empty() ? "" : "; ", rank, s.index,
                        action_name(lists[rank][s.index]), result_name(s.missing, placement));
    rank = static_cast<size_t>(placement.rank(s.missing.stage));
  }
  return text;
}

}  // namespace

void check_actions(const ActionLists& lists, const PipelineShape& shape) {
  const StagePlacement placement(shape);
  if (lists.size() != static_cast<size_t>(shape.ranks))
    fail("pipeline: {} lists for {} ranks: expected one for each", lists.size(), shape.ranks);
  for (int rank = 0; rank < shape.ranks; ++rank) check_list(lists[static_cast<size_t>(rank)], rank, shape);
  const auto stuck = run_lists(lists, placement, [](int, std::span<const PipelineAction>) {});
  if (!stuck.empty())
    fail("pipeline: {}: expected an order in which ranks do not wait in a circle", waits(stuck, lists, placement));
}

void check_messages(const ActionLists& lists, const PipelineShape& shape) {
  ActionLists passes;
  for (const ActionList& list : lists) {
    passes.emplace_back();
    std::copy_if(list.begin(), list.end(), std::back_inserter(passes.back()),
                 [](const PipelineAction& action) { return !is_message(action.kind); });
  }
  check_actions(passes, shape);
  check_rendezvous(lists, StagePlacement(shape));
}

}  // namespace partita::internal
