// Runs the lists of all ranks of a pipeline, messages included, in list order, where a send waits until its receiver
// arrives at the receive: the strictest way in which messages can work. Pure. Part of pipeline/check.h.
//
//   check_rendezvous(with_messages(lists, placement), placement);
#pragma once
#include "partita/pipeline/action.h"
#include "partita/pipeline/placement.h"

namespace partita::internal {

// Errors: a pass whose input from another rank was not received before; a message of something that is not there, or to
// a rank that does not hold the next stage; one that is not received, or in another order; ranks that wait for each
// other.
void check_rendezvous(const ActionLists&, const StagePlacement&);

}  // namespace partita::internal
