// Connects the ranks of a job without MPI: rank 0 listens where the launcher said, the others tell it where they
// listen, it tells everyone, and every pair connects. Each pair proves that it belongs to this job (handshake.h) before
// exchanging anything else.
#pragma once
#include <string>
#include <vector>

#include "partita/comm/environment.h"
#include "partita/comm/socket.h"

namespace partita::internal {

// By rank; this rank's own entry is empty.
struct Peers {
  std::vector<Socket> sockets;
  std::vector<std::string> names;  // "rank 1 (process 4711 on node7)"
};

// Collective. Rank 0 listens on the first free one of launch.ports ports, only at the addresses that the job needs;
// with launch.agent_store, on any free port, which torchrun's store tells the others. Errors at the deadline: rank 0
// names the ranks that did not connect, other ranks what they could not reach. Immediate errors: a rank died, two
// processes have the same rank, or the ranks run different versions of this program.
[[nodiscard]] Peers meet(const Launch& launch, Deadline deadline);

}  // namespace partita::internal
