// Messages by MPI. The process must have been started by mpirun or by srun --mpi=pmix.
#pragma once
#include <memory>

#include "partita/comm/transport.h"

namespace partita::internal {

// Initialises MPI; close() finalises it, so that a process can do this once. Errors: MPI says why it cannot start.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport();

}  // namespace partita::internal
