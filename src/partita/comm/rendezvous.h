// How the ranks of a job without MPI find each other: rank 0 listens where the launcher said, the others tell it where
// they listen, it tells everyone, and each two of them connect.
#pragma once
#include <vector>

#include "partita/comm/environment.h"
#include "partita/comm/socket.h"

namespace partita {

// Connections by rank; one's own is empty. Every rank of the job calls this.
// Rank 0 listens on the first free of a few ports from launch.master_port on, since torchrun's own store or another job
// may have taken the first; a greeting with the job's name tells the right one.
// Errors at the deadline: rank 0 names the ranks that did not come, another rank what it could not reach.
[[nodiscard]] std::vector<Socket> meet(const Launch& launch, Deadline deadline);

}  // namespace partita
