#include "partita/pipeline/schedules.h"

#include "partita/pipeline/loop_schedules.h"
#include "partita/pipeline/v_schedules.h"

namespace partita::internal {
namespace {

ActionList actions_of(const PipelineShape& shape, int rank) {
  switch (shape.schedule) {
    case PipelineSchedule::gpipe:
      return breadth_first_actions(shape.chunks, shape.micro_batches, ReturnOrder::same);
    case PipelineSchedule::looped_bfs:
      return breadth_first_actions(shape.chunks, shape.micro_batches, ReturnOrder::reversed);
    case PipelineSchedule::one_f_one_b:
    case PipelineSchedule::interleaved:
      return loop_actions(shape, rank, BackwardForm::whole);
    case PipelineSchedule::zb_h1:
    case PipelineSchedule::interleaved_zero_bubble:
      return loop_actions(shape, rank, BackwardForm::split);
    case PipelineSchedule::zbv:
      return zbv_actions(shape.ranks, shape.micro_batches, rank);
    case PipelineSchedule::dual_pipe_v:
      return dual_pipe_v_actions(shape.ranks, shape.micro_batches, rank);
  }
  return {};
}

}  // namespace

int default_chunks(PipelineSchedule s) {
  return s == PipelineSchedule::gpipe || s == PipelineSchedule::one_f_one_b || s == PipelineSchedule::zb_h1 ? 1 : 2;
}

ActionLists pipeline_actions(const PipelineShape& shape) {
  check_shape(shape);
  ActionLists lists;
  for (int rank = 0; rank < shape.ranks; ++rank) lists.push_back(actions_of(shape, rank));
  return lists;
}

}  // namespace partita::internal
