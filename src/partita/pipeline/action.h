// The work of a pipeline rank in one step as a list of actions: forward and backward passes of its chunks for each
// micro-batch, and the messages between them. Pure.
//
//   const ActionLists lists = pipeline_actions(shape);             // pipeline/schedules.h
//   for (const PipelineAction& action : lists[rank]) ...           // F0 F1 B0 F2 B1 B2
//   action_name({ActionKind::backward, 1, 7})                      // "the backward pass of chunk 1, micro-batch 7"
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace partita::internal {

enum class ActionKind : uint8_t {
  forward,
  backward,         // input and weight gradients in one pass
  input_gradient,   // the part of a backward pass that other stages wait for ...
  weight_gradient,  // ... and the rest of it, at any later time
  send_activation,  // messages: the output of the chunk, to the next stage
  receive_activation,
  send_gradient,  // the gradient of the chunk's input, to the previous stage
  receive_gradient,
};

struct PipelineAction {
  ActionKind kind = ActionKind::forward;
  int chunk = 0;  // of this rank: computes, sends its output, or receives its input
  int micro_batch = 0;
  // A forward and the backward after it, of another micro-batch or chunk, that may run at the same time. Set in the
  // forward. Both start when the inputs of both are there; what they send follows both.
  bool with_next = false;
  int peer = -1;  // of messages: the other rank

  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

using ActionList = std::vector<PipelineAction>;
using ActionLists = std::vector<ActionList>;  // [rank]

[[nodiscard]] constexpr bool is_message(ActionKind kind) { return kind >= ActionKind::send_activation; }
// Whether the action gives the gradient of the chunk's input.
[[nodiscard]] constexpr bool makes_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::input_gradient;
}
// Whether the activations of the chunk and micro-batch are no longer needed after it.
[[nodiscard]] constexpr bool frees_activations(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::weight_gradient;
}

// For errors.
[[nodiscard]] std::string action_name(const PipelineAction&);

// For drawings: F0 (forward), B0, I0, W0 of micro-batch 0. Two chunks: the second in small letters. More: 0F0, 1F0, ..
// Messages have no label.
[[nodiscard]] std::string action_label(const PipelineAction&, int chunks);

}  // namespace partita::internal
