// Checks the action lists of a pipeline. Pure.
//
//   check_actions(lists, shape);                                  // lists without messages
//   check_messages(with_messages(lists, placement), shape);       // lists with messages
//
// Errors name the rank, the action, and what it waits for or what is wrong about it.
#pragma once
#include "partita/pipeline/action.h"
#include "partita/pipeline/shape.h"

namespace partita::internal {

// Every chunk of every rank has, for every micro-batch, one forward, and after it one backward, or one input gradient
// and after it one weight gradient. Pairs are a forward and a whole backward. Together the lists run to their end.
void check_actions(const ActionLists&, const PipelineShape&);

// The same, and: what a pass needs from another rank has been received before it; it is sent after it was computed;
// nothing is received or sent twice or in vain; between two ranks, messages are received in the order in which they are
// sent; and the lists run to their end if every operation is done in list order and a send waits for its receive.
void check_messages(const ActionLists&, const PipelineShape&);

}  // namespace partita::internal
