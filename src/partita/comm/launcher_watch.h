// Ends this process when its launcher is killed (kill -9, out of memory): nothing else would stop it, and it would keep
// its GPU.
#pragma once

namespace partita::internal {

// Watches the parent from a sleeping thread if it is mpirun, orted or torchrun; otherwise a no-op.
void end_with_launcher(int rank);

}  // namespace partita::internal
