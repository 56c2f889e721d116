// How the ranks of a job without MPI find each other: rank 0 listens where the launcher said, the others tell it where
// they listen, it tells everyone, and each two of them connect. Each two prove to each other that they are of this job
// (handshake.h) before they say anything else.
#pragma once
#include <string>
#include <vector>

#include "partita/comm/environment.h"
#include "partita/comm/socket.h"

namespace partita::internal {

// By rank; one's own is empty.
struct Peers {
  std::vector<Socket> sockets;
  std::vector<std::string> names;  // "rank 1 (process 4711 on node7)"
};

// Every rank of the job calls this. Rank 0 listens on the first free of launch.ports ports, and only at the addresses
// that the job needs; with launch.agent_store on any free port, which torchrun's store tells the others. Errors at the
// deadline: rank 0 names the ranks that did not come, another rank what it could not reach. At once: a rank ended
// meanwhile, two processes have one rank, the ranks run different versions of this program.
[[nodiscard]] Peers meet(const Launch& launch, Deadline deadline);

}  // namespace partita::internal
