// Actions of a rank in the schedules whose stages run down the ranks and up again, two chunks per rank: ZBV and
// DualPipeV. Pure. Called by pipeline/schedules.h, which has checked the shape.
//
//   zbv_actions(4, 8, 3);                      // F0 f0 F1 f1 F2 f2 F3 f3 i0 w0 F4 I0 W0 ..; small letters: chunk 1
//
// Both fill the pipeline with a minimum of micro-batches, 2P - 1 and 2P. A step with fewer is the list of that minimum
// without the actions of the micro-batches that do not exist. It is legal, because micro-batches do not depend on each
// other, and leaves their time idle.
#pragma once
#include "partita/pipeline/action.h"

namespace partita::internal {

// P. Qi et al., "Zero bubble pipeline parallelism", arXiv 2401.10241, section 6: as scheduled for F = I = W, where no
// rank waits between its first and last action.
[[nodiscard]] ActionList zbv_actions(int ranks, int micro_batches, int rank);

// DeepSeek-AI, arXiv 2412.19437, in the form of one V (github.com/deepseek-ai/DualPipe). Its pairs are with_next. Pairs
// of which one micro-batch does not exist are dissolved.
[[nodiscard]] ActionList dual_pipe_v_actions(int ranks, int micro_batches, int rank);

}  // namespace partita::internal
