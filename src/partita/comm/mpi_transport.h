// Messages over MPI. The process must have been started by mpirun or srun --mpi=pmix.
#pragma once
#include <memory>

#include "partita/comm/transport.h"

namespace partita::internal {

// Initializes MPI, which close() finalizes, so this works once per process. Errors: MPI's reason for not starting.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport();

}  // namespace partita::internal
