// The actions of each rank of a pipeline, for every schedule. Pure.
//
//   const ActionLists lists = pipeline_actions({PipelineSchedule::one_f_one_b, 2, 1, 3});
//   // lists[0]: F0 F1 B0 F2 B1 B2       lists[1]: F0 B0 F1 B1 F2 B2
//   const ActionLists with = with_messages(lists, StagePlacement(shape));       // pipeline/messages.h
//
// Every list is legal for any number of micro-batches (pipeline/check.h), and agrees with
// torch.distributed.pipelining where torch accepts the numbers. In all schedules but looped_bfs the weight gradients of
// a chunk are computed in the order of micro-batches: sums, and so the run, do not depend on the schedule.
#pragma once
#include "partita/pipeline/action.h"
#include "partita/pipeline/shape.h"

namespace partita::internal {

// Without messages. Errors: those of check_shape.
[[nodiscard]] ActionLists pipeline_actions(const PipelineShape&);

// Chunks per rank where none are given: 1 for schedules of one chunk, otherwise 2.
[[nodiscard]] int default_chunks(PipelineSchedule);

}  // namespace partita::internal
