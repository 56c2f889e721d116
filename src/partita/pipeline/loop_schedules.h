// Actions of a rank in the schedules whose stages loop over the ranks: GPipe, LoopedBFS, 1F1B, interleaved 1F1B, ZB-H1
// and interleaved zero bubble. Pure. Called by pipeline/schedules.h, which has checked the shape.
//
//   loop_actions({PipelineSchedule::zb_h1, 4, 1, 8}, 3, BackwardForm::split);  // F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 ..
#pragma once
#include "partita/pipeline/action.h"
#include "partita/pipeline/shape.h"

namespace partita::internal {

enum class ReturnOrder : uint8_t { same, reversed };  // of micro-batches, in the backward passes
enum class BackwardForm : uint8_t { whole, split };   // split: input gradients first, weight gradients later

// All forwards, chunk by chunk, then all backwards. The same on every rank.
[[nodiscard]] ActionList breadth_first_actions(int chunks, int micro_batches, ReturnOrder);

// Warm-up forwards, then forwards and backwards in turn, then the remaining backwards.
//
// Micro-batches pass through the chunks in groups of at least P, so that the first one returns to rank 0 when rank 0
// has started the whole group: M div P groups, as equal as possible, larger ones first; one group if M < P. Backward
// passes run through groups and micro-batches in the same order, and through the chunks in reverse.
//
// Warm-up: forwards of the first group in all chunks but the last, and one more, or two with several chunks and whole
// backwards, for each rank after this one (D. Narayanan et al., arXiv 2104.04473; P. Qi et al., arXiv 2401.10241).
//
// Split: rank r leaves r weight gradients open, the oldest is computed after each further input gradient, and the open
// ones at the end, in the bubble of 1F1B. The rank then holds as many activations as rank 0 does.
[[nodiscard]] ActionList loop_actions(const PipelineShape&, int rank, BackwardForm);

}  // namespace partita::internal
