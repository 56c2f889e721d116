// Starts the ranks of a job on this machine, or on the hosts of a file: `partita launch -n 2 -- train CONFIG`.
//
//   return launch(2, {"train", "config.toml"}, {});       // mpirun -n 2 partita train config.toml
//
// Ctrl-C asks the ranks to end in order (they see SIGINT, and may save first); a second one ends them at once.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace partita {

struct LaunchOptions {
  std::string host_file;      // Open MPI's format, "node1 slots=4" a line; empty: this machine
  std::string bind = "none";  // none, core, socket or numa: what a rank may not leave. core: as many as it has threads
  bool output_is_needed = false;  // where what the ranks print cannot be written is an Error at the end
};

// The arguments of `command` go to this very program on every rank. 0: all ranks ended well; 2: they say that they were
// used wrongly. Errors: mpirun is not installed; a rank ended by a signal or an exit code, with its number.
// UsageError: ranks < 1, more than 64 and 4 times the cores of each machine, an unknown `bind`.
[[nodiscard]] int launch(int ranks, const std::vector<std::string>& command, const LaunchOptions& options);

// What launch() runs. Pure. `cores` of this machine, taken for those of the other hosts too; `hosts` in the host file.
struct MpirunCall {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // to be added, after kOuterVariables have been taken away
};
// Of a launcher that this process itself was started by, alone: they would contradict mpirun's.
inline constexpr const char* kOuterVariables[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "PMI_RANK", "PMI_SIZE"};
// Of the user, for ranks on other hosts too. Each rank chooses its threads by itself (comm/host_threads.h).
inline constexpr const char* kForwarded[] = {"OMP_NUM_THREADS", "PARTITA_NUM_THREADS", "OMP_WAIT_POLICY",
                                             "GOMP_SPINCOUNT"};
struct LaunchMachine {
  int cores = 1, hosts = 1;
  bool root = false, slurm = false;      // root user; inside a Slurm allocation, whose slots mpirun knows
  std::vector<std::string> variables{};  // of kForwarded, those that are set
  int terminal_width = 0;                // of stderr; 0: it is not a terminal
  std::string terminal{};                // its path, where ranks can open it
  bool one_terminal = false;             // and stdout is the same one
  std::string shared_memory;             // the folder for MPI's segments; empty: its own choice
};
[[nodiscard]] MpirunCall mpirun_call(int ranks, const std::string& program, const std::vector<std::string>& command,
                                     const LaunchOptions& options, const LaunchMachine& machine);

}  // namespace partita
