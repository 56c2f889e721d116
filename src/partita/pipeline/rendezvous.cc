#include "partita/pipeline/rendezvous.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/pipeline/dataflow.h"

namespace partita::internal {
namespace {

// A message, seen from either end: what it carries, and where to.
struct Route {
  StageResult carries;
  int to_stage = 0;

  friend bool operator==(const Route&, const Route&) = default;
};

Route route(const PipelineAction& message, int rank, const StagePlacement& placement) {
  const int own = placement.stage(rank, message.chunk), m = message.micro_batch;
  switch (message.kind) {
    case ActionKind::send_activation:
      return {{false, own, m}, own + 1};
    case ActionKind::receive_activation:
      return {{false, own - 1, m}, own};
    case ActionKind::send_gradient:
      return {{true, own, m}, own - 1};
    default:
      return {{true, own + 1, m}, own};
  }
}

bool sends(ActionKind kind) { return kind == ActionKind::send_activation || kind == ActionKind::send_gradient; }

class Ranks {
 public:
  Ranks(const ActionLists& lists, const StagePlacement& placement)
      : lists_(lists), placement_(placement), next_(lists.size()), here_(lists.size(), {lists, placement}) {}

  void run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < placement_.ranks(); ++rank)
        while (step(rank)) progress = true;
    }
    for (int rank = 0; rank < placement_.ranks(); ++rank)
      if (const PipelineAction* action = head(rank)) {
        const PipelineAction* other = head(action->peer);
        fail(
            "pipeline: rank {} waits at action {}, {}, for rank {}, which waits at {}: expected an order of messages "
            "in which no two ranks wait for each other",
            rank, at(next_, rank), described(*action), action->peer, other ? described(*other) : "the end of its list");
      }
  }

 private:
  template <class T>
  static T& at(std::vector<T>& of, int rank) {
    return of[static_cast<size_t>(rank)];
  }

  const PipelineAction* head(int rank) const {
    const ActionList& list = lists_[static_cast<size_t>(rank)];
    const size_t next = next_[static_cast<size_t>(rank)];
    return next < list.size() ? &list[next] : nullptr;
  }

  static std::string described(const PipelineAction& action) {
    return is_message(action.kind)
               ? fmt::format("{} ({} rank {})", action_name(action), sends(action.kind) ? "to" : "from", action.peer)
               : action_name(action);
  }

  // Whether the rank did its next action. Sends move both ends; a receive alone moves nothing.
  bool step(int rank) {
    const PipelineAction* action = head(rank);
    if (action == nullptr) return false;
    if (!is_message(action->kind)) {
      const auto together = step_at(lists_[static_cast<size_t>(rank)], at(next_, rank));
      if (is_message(together.back().kind))
        fail("pipeline: rank {}, action {}, {}, comes between the two passes of a pair: put it before or after them",
             rank, at(next_, rank) + 1, described(together.back()));
      for (const PipelineAction& a : together) need_inputs(a, rank);
      for (const PipelineAction& a : together) finish(a, rank);
      return true;
    }
    const Route message = checked_route(*action, rank);
    if (!sends(action->kind)) return false;
    if (!at(here_, rank)[message.carries])
      fail("pipeline: rank {}, action {}, {}, comes before it is computed: put it after the pass", rank,
           at(next_, rank), described(*action));
    const PipelineAction* other = head(action->peer);
    if (other == nullptr || !is_message(other->kind) || sends(other->kind) || other->peer != rank) return false;
    if (const Route received = checked_route(*other, action->peer); received != message)
      fail("pipeline: rank {}, action {} is {}, but rank {} receives {} there: receive in the order of sends", rank,
           at(next_, rank), described(*action), action->peer, result_name(received.carries, placement_));
    if (std::exchange(at(here_, action->peer)[message.carries], 1))
      fail("pipeline: rank {} receives {} twice: send it once", action->peer, result_name(message.carries, placement_));
    ++at(next_, action->peer);
    ++at(next_, rank);
    return true;
  }

  // A message is of a chunk of this rank; its other end is the rank of a neighboring stage, and not this one.
  Route checked_route(const PipelineAction& action, int rank) {
    const Route message = route(action, rank, placement_);
    const int other = sends(action.kind) ? message.to_stage : message.carries.stage;
    if (action.chunk < 0 || action.chunk >= placement_.chunks() || action.micro_batch < 0 || other < 0 ||
        other >= placement_.stages() || placement_.rank(other) != action.peer || action.peer == rank)
      fail(
          "pipeline: rank {}, action {}, {}: no neighboring stage is there; expected messages between ranks of "
          "neighboring stages only",
          rank, at(next_, rank), described(action));
    return message;
  }

  void need_inputs(const PipelineAction& action, int rank) {
    for (const StageResult& need : needs_of(action, rank, placement_)) {
      if (!at(here_, rank)[need])
        fail("pipeline: rank {}, action {}, {}, needs {}, which is not there yet: receive it before", rank,
             at(next_, rank), action_name(action), result_name(need, placement_));
    }
  }

  void finish(const PipelineAction& action, int rank) {
    if (const auto result = result_of(action, rank, placement_)) at(here_, rank)[*result] = 1;
    ++at(next_, rank);
  }

  const ActionLists& lists_;
  const StagePlacement& placement_;
  std::vector<size_t> next_;             // [rank]
  std::vector<ResultTable<char>> here_;  // [rank]: computed or received
};

}  // namespace

void check_rendezvous(const ActionLists& lists, const StagePlacement& placement) { Ranks(lists, placement).run(); }

}  // namespace partita::internal
