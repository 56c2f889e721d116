// The programs that started this process, from its parent upwards: tells which launcher is the nearest when the
// variables of several are set.
//
//   process_ancestors()  ->  {"bash", "torchrun", "mpirun", "bash"}
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

// Program names without folders, nearest first. Evaluated only when needed.
using Ancestors = std::function<std::vector<std::string>()>;

// Reads /proc; stops early where it is not accessible.
[[nodiscard]] std::vector<std::string> process_ancestors();

// Pure. The name of a program from its `comm` and its zero-terminated arguments, as in /proc. Python running torchrun,
// or a script that starts workers like torchrun, is "torchrun".
[[nodiscard]] std::string program_name(std::string_view comm, std::string_view arguments);

// Pure. Whether the program is Open MPI's mpirun, or its daemon on another host.
[[nodiscard]] bool is_open_mpi_launcher(std::string_view program);

}  // namespace partita::internal
