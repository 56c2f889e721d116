// The sum of a number over the ranks of a group, such as the number of tokens in their batches.
//
//   const double tokens = sum_over(mesh.data(), 1200);   // 1200 on this rank
#pragma once
#include "partita/comm/communicator.h"

namespace partita {

// The same on all ranks: summed in rank order, in fp64, over the host's transport. Waits for all of them. Collective.
[[nodiscard]] double sum_over(Communicator& group, double value);

}  // namespace partita
