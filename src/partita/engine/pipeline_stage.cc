#include "partita/engine/pipeline_stage.h"

#include <algorithm>

#include "partita/engine/handover.h"
#include "partita/pipeline/messages.h"
#include "partita/pipeline/open_weights.h"
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

Action pass_of(const PipelineAction& a) {
  return {.pass = a.kind == ActionKind::forward ? Pass::forward : Pass::backward,
          .micro_batch = a.micro_batch,
          .chunk = a.chunk,
          .gradients = a.kind == ActionKind::input_gradient    ? Gradients::inputs
                       : a.kind == ActionKind::weight_gradient ? Gradients::weights
                                                               : Gradients::all};
}

}  // namespace

std::vector<Action> stage_actions(const PipelineShape& shape, int rank, int open_weights) {
  const ActionList list =
      with_messages(capped_actions(shape, open_weights), StagePlacement(shape))[static_cast<size_t>(rank)];
  std::vector<Action> actions;
  for (const PipelineAction& a : list) actions.push_back(is_message(a.kind) ? message(a) : pass_of(a));
  // Slots and sets have memory for the blocks of one chunk.
  int first_slot = 0, first_set = 0;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    ActionList own, opened;  // opened: input gradients in place of forwards, so that a set is held from there
    std::vector<Action*> same, opens;
    for (size_t i = 0; i < list.size(); ++i) {
      PipelineAction a = list[i];
      if (a.chunk != chunk || is_message(a.kind)) continue;
      own.push_back(a), same.push_back(&actions[i]);
      if (a.kind == ActionKind::input_gradient)
        a.kind = ActionKind::forward;
      else if (a.kind != ActionKind::weight_gradient)
        continue;
      opened.push_back(a), opens.push_back(&actions[i]);
    }
    const ActivationSlots slots = assign_slots(own), sets = assign_slots(opened);
    for (size_t i = 0; i < own.size(); ++i) same[i]->slot = first_slot + slots.slot[i];
    for (size_t i = 0; i < opened.size(); ++i) opens[i]->open = first_set + sets.slot[i];
    const auto last = std::find_if(same.rbegin(), same.rend(), [](const Action* a) {
      return a->pass == Pass::backward && a->gradients != Gradients::inputs;
    });
    (*last)->last = true;
    first_slot += slots.slots;
    first_set += sets.slots;
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
