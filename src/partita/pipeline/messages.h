// Places the messages of a pipeline between its actions. Pure.
//
//   const ActionLists lists = with_messages(pipeline_actions(shape), StagePlacement(shape));
//   // 2 ranks, 1F1B:   rank 0   F0 send F1 send receive B0 ..
//   //                  rank 1   receive F0 receive B0 send F1 ..
//
// A rank sends as soon as it has computed. The receive is put into the other rank's list at that moment of a run of all
// lists, before what the other rank computes next. All messages are then in one total order, and
//
// - the lists run to their end even if every send blocks until it is received: no deadlock, however little is buffered;
// - between two ranks, in each direction, messages are sent and received in the same order: no tags are needed.
//
// Neither holds if receives are put where their data is used (pytorch#172668, Megatron-LM#5271).
#pragma once
#include "partita/pipeline/action.h"
#include "partita/pipeline/placement.h"

namespace partita::internal {

// Between stages of the same rank there are no messages. Error: lists that get stuck (pipeline/check.h says where).
[[nodiscard]] ActionLists with_messages(const ActionLists&, const StagePlacement&);

}  // namespace partita::internal
