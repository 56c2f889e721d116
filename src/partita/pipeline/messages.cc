#include "partita/pipeline/messages.h"

#include "partita/base/error.h"
#include "partita/pipeline/dataflow.h"

namespace partita::internal {

ActionLists with_messages(const ActionLists& lists, const StagePlacement& placement) {
  ActionLists out(lists.size());
  const auto exchange = [&](ActionKind send, ActionKind receive, int from, int to, int micro_batch) {
    const int sender = placement.rank(from), receiver = placement.rank(to);
    out[static_cast<size_t>(sender)].push_back(
        {.kind = send, .chunk = placement.chunk(from), .micro_batch = micro_batch, .peer = receiver});
    out[static_cast<size_t>(receiver)].push_back(
        {.kind = receive, .chunk = placement.chunk(to), .micro_batch = micro_batch, .peer = sender});
  };
  const auto stuck = run_lists(lists, placement, [&](int rank, std::span<const PipelineAction> step) {
    ActionList& list = out[static_cast<size_t>(rank)];
    list.insert(list.end(), step.begin(), step.end());
    for (const PipelineAction& action : step) {
      const auto result = result_of(action, rank, placement);
      if (!result) continue;
      const int stage = result->stage;
      if (!result->gradient && placement.handed_over(stage))
        exchange(ActionKind::send_activation, ActionKind::receive_activation, stage, stage + 1, action.micro_batch);
      if (result->gradient && stage > 0 && placement.handed_over(stage - 1))
        exchange(ActionKind::send_gradient, ActionKind::receive_gradient, stage, stage - 1, action.micro_batch);
    }
  });
  PARTITA_CHECK(stuck.empty(), "rank {} waits for {}", stuck[0].rank, result_name(stuck[0].missing, placement));
  return out;
}

}  // namespace partita::internal
