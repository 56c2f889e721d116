// What determines the actions of a pipeline: its schedule, ranks, chunks per rank and micro-batches. Pure.
//
//   const PipelineShape shape{PipelineSchedule::interleaved, 4, 2, 8};  // 4 ranks of 2 chunks: stages 0 to 7
//   check_shape(shape);                                                 // error if they do not fit together
//
// The blocks of a model are cut into consecutive stages. Each rank holds one stage per chunk (pipeline/placement.h).
#pragma once
#include <array>
#include <cstdint>

#include "partita/base/enum_names.h"

namespace partita {

// "Bubble" is the time in which a rank waits. F, I, W: times of the forward pass, the input gradients and the weight
// gradients of all stages of a rank; P ranks, V chunks per rank.
enum class PipelineSchedule : uint8_t {
  gpipe,        // all forwards, then all backwards; bubble (P-1)(F+I+W); arXiv 1811.06965
  one_f_one_b,  // a backward as early as possible: at most P micro-batches are held, with the bubble of gpipe;
                // arXiv 1806.03377, 2104.04473
  interleaved,  // 1F1B over V chunks: bubble (P-1)(F+I+W)/V, more activations and messages; arXiv 2104.04473
  looped_bfs,   // GPipe over V chunks; micro-batches return in reverse order; arXiv 2211.05953
  zb_h1,        // 1F1B with weight gradients in the bubble: (P-1)(F+I-W); arXiv 2401.10241
  interleaved_zero_bubble,  // ZB-H1 over V chunks
  zbv,                      // two chunks, down and up again: embedding and head on rank 0; arXiv 2401.10241, section 6
  dual_pipe_v,              // as zbv, with forwards and backwards that run at the same time; arXiv 2412.19437
};
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr std::array kNames = {
      "gpipe", "1f1b", "interleaved", "looped_bfs", "zb_h1", "interleaved_zero_bubble", "zbv", "dual_pipe_v"};
};

namespace internal {

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int ranks = 1;          // P
  int chunks = 1;         // V, per rank
  int micro_batches = 1;  // M, per step

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

// Errors: a count below 1; chunks that the schedule does not have (gpipe, 1f1b, zb_h1: one; zbv, dual_pipe_v: two);
// more actions than are reasonable to list. Any number of micro-batches is right for every schedule.
void check_shape(const PipelineShape&);

}  // namespace internal
}  // namespace partita
