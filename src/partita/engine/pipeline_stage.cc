#include "partita/engine/pipeline_stage.h"

#include <algorithm>

#include "partita/engine/handover.h"
#include "partita/pipeline/messages.h"
#include "partita/pipeline/open_weights.h"
#include "partita/pipeline/schedules.h"
#include "partita/pipeline/slots.h"

namespace partita::internal {
namespace {

Action message(const PipelineAction& a) {
  const bool forward = a.kind == ActionKind::send_activation || a.kind == ActionKind::receive_activation;
  const bool sends = a.kind == ActionKind::send_activation || a.kind == ActionKind::send_gradient;
  return {.pass = forward ? Pass::forward : Pass::backward,
          .micro_batch = a.micro_batch,
          .chunk = a.chunk,
          .transfer = sends ? Transfer::send : Transfer::receive,
          .peer = a.peer};
}

}  // namespace

std::vector<Action> stage_actions(const PipelineShape& shape, int rank) {
  ActionLists lists = pipeline_actions(shape);
  for (ActionList& list : lists) list = cap_open_weights(list, 0);
  const ActionList list = with_messages(lists, StagePlacement(shape))[static_cast<size_t>(rank)];
  std::vector<Action> actions;
  for (const PipelineAction& a : list)
    actions.push_back(is_message(a.kind)
                          ? message(a)
                          : Action{.pass = a.kind == ActionKind::forward ? Pass::forward : Pass::backward,
                                   .micro_batch = a.micro_batch,
                                   .chunk = a.chunk});
  // A slot has memory for the blocks of one chunk.
  int first_slot = 0;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    ActionList own;
    std::vector<Action*> same;
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].chunk == chunk && !is_message(list[i].kind)) own.push_back(list[i]), same.push_back(&actions[i]);
    const ActivationSlots slots = assign_slots(own);
    for (size_t i = 0; i < own.size(); ++i) same[i]->slot = first_slot + slots.slot[i];
    const auto last = std::find_if(same.rbegin(), same.rend(), [](Action* a) { return a->pass == Pass::backward; });
    (*last)->last = true;
    first_slot += slots.slots;
  }
  return actions;
}

std::vector<Action> forward_actions(const StagePlacement& placement, int rank) {
  std::vector<Action> actions;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    if (placement.rank(stage) != rank) continue;
    const int chunk = placement.chunk(stage);
    if (stage > 0 && placement.handed_over(stage - 1))
      actions.push_back({.chunk = chunk, .transfer = Transfer::receive, .peer = placement.rank(stage - 1)});
    actions.push_back({.chunk = chunk});
    if (placement.handed_over(stage))
      actions.push_back({.chunk = chunk, .transfer = Transfer::send, .peer = placement.rank(stage + 1)});
  }
  return actions;
}

int handover_buffers(const std::vector<Action>& actions, const PipelineStage& stage) {
  const StagePlacement placement = stage.placement();
  int held = 0, most = 0;
  for (const Action& action : actions) {
    const HandoverUse use = handover_use(action, placement, stage.rank);
    if (action.transfer == Transfer::receive)
      ++held;
    else if (action.transfer == Transfer::send)
      --held;
    else
      held += (use.writes ? 1 : 0) - (use.reads ? 1 : 0);
    most = std::max(most, held);
  }
  return most + 2;
}

}  // namespace partita::internal
