// A rank's part of a pipeline: its blocks, in chunks, and the actions of its steps. Pure.
//
//   const PipelineStage stage{.shape = {PipelineSchedule::one_f_one_b, 4, 1, 8}, .rank = 1, .chunks = {0, 3}};
//   const std::vector<Action> step = stage_actions(stage.shape, stage.rank);
//
// The schedules are those of pipeline/schedules.h.
#pragma once
#include <string>
#include <vector>

#include "partita/engine/step_plan.h"
#include "partita/pipeline/placement.h"
#include "partita/pipeline/shape.h"

namespace partita {

struct PipelineStage {
  internal::PipelineShape shape;  // one rank and one chunk: no pipeline
  int rank = 0;
  // First of this rank's blocks in each chunk, then their number; chunks are in the order of their stages. Empty: one
  // chunk.
  std::vector<int> chunks;
  std::vector<bool> trains_below;  // [chunk]: an earlier stage has trained parameters; empty: none has
  // Whether the gradients of a residual's two parts differ between stages: with dropout on it.
  bool two_gradients = false;
  // Most micro-batches of this rank whose weight gradients wait at the same time, in schedules that delay them: fewer
  // take less memory and more waiting; 0: whole backward passes; -1: as many as the schedule has.
  int open_weights = -1;
  // A parameter that the first and the last stage hold, each on a rank of its own; empty: none.
  std::string tied;

  [[nodiscard]] bool pipelined() const { return shape.ranks > 1; }
  [[nodiscard]] internal::StagePlacement placement() const { return internal::StagePlacement(shape); }
  [[nodiscard]] bool has_first_stage() const { return placement().embedding_rank() == rank; }
};

}  // namespace partita

namespace partita::internal {

// The passes of a step, each chunk with activation slots and sets of open operands of its own, and the messages between
// them: all ranks' lists run to their end even if every send waits for its receive (pipeline/messages.h). Errors: those
// of check_shape.
[[nodiscard]] std::vector<Action> stage_actions(const PipelineShape&, int rank, int open_weights = -1);

// The forward pass of one micro-batch, for evaluation.
[[nodiscard]] std::vector<Action> forward_actions(const StagePlacement&, int rank);

// Number of buffers for what passes between stages: outputs and gradients that were computed and not yet sent, or
// received and not yet used; and two more, so that the next passes can write while one is sent in each direction.
[[nodiscard]] int handover_buffers(const std::vector<Action>&, const PipelineStage&);

}  // namespace partita::internal
