// Messages over TCP sockets, one connection per pair of ranks: for jobs without MPI (srun --mpi=none, torchrun's
// variables).
#pragma once
#include <chrono>
#include <memory>

#include "partita/comm/environment.h"
#include "partita/comm/transport.h"

namespace partita::internal {

// Rank 0 listens at launch.master_address:master_port, where the others connect. Errors after `timeout`: the ranks that
// did not connect, or the address that could not be reached.
[[nodiscard]] std::unique_ptr<Transport> make_tcp_transport(const Launch& launch, std::chrono::milliseconds timeout);

}  // namespace partita::internal
