// Ends this process when the launcher that started it is gone (kill -9, out of memory): nobody would stop it any more,
// and it would keep its GPU.
#pragma once

namespace partita::internal {

// Watches the parent, from a thread that sleeps until then, where it is mpirun, orted or torchrun. Otherwise does
// nothing.
void end_with_launcher(int rank);

}  // namespace partita::internal
