// The programs that this process was started by, from its parent upwards: which launcher is the nearest, where the
// variables of several are set.
//
//   process_ancestors()  ->  {"bash", "torchrun", "mpirun", "bash"}
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

// Names of programs without their folders, nearest first. Asked for only where it matters.
using Ancestors = std::function<std::vector<std::string>()>;

// From /proc; ends early where that is not shown.
[[nodiscard]] std::vector<std::string> process_ancestors();

// Pure. The name of a program: `comm` and the arguments, each ended by a zero, as /proc shows them. Python that runs
// torchrun, or a script that starts workers as it does, is "torchrun".
[[nodiscard]] std::string program_name(std::string_view comm, std::string_view arguments);

// Pure. A name of Open MPI's mpirun, or of its daemon on another host.
[[nodiscard]] bool is_open_mpi_launcher(std::string_view program);

}  // namespace partita::internal
