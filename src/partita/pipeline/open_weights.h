// Limits how many weight gradients of a pipeline's rank are open: their input gradient is computed, they are not. Pure.
//
//   most_open_weights(lists[3]) == 4;                                    // ZB-H1, 4 ranks
//   const ActionList list = cap_open_weights(lists[3], 1);               // F0 I0 F1 W0 I1 F2 W1 I2 ..
//
// An open weight gradient holds the input and the output gradient of each linear: far more than a stage's input, which
// is all that is held otherwise under full recomputation. Fewer open ones are a larger bubble.
#pragma once
#include <span>

#include "partita/pipeline/action.h"
#include "partita/pipeline/shape.h"

namespace partita::internal {

[[nodiscard]] int most_open_weights(std::span<const PipelineAction>);

// The same list with at most `most` open at any time: where one more would be opened, the oldest is computed first.
// Those of a chunk keep their order. 0: input and weight gradients become whole backwards. Still a list that
// check_actions accepts, together with those of other ranks. Error: negative `most`.
[[nodiscard]] ActionList cap_open_weights(std::span<const PipelineAction>, int most);

// pipeline_actions of the shape, each rank's list with at most `most`; -1: as many as the schedule has.
[[nodiscard]] ActionLists capped_actions(const PipelineShape&, int most);

}  // namespace partita::internal
