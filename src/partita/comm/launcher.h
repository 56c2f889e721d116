// Starts the ranks of a job on this machine, or on the hosts in a file: `partita launch -n 2 -- train CONFIG`.
//
//   return launch(2, {"train", "config.toml"}, {});       // mpirun -n 2 partita train config.toml
//
// Ctrl-C asks the ranks to stop gracefully (they get SIGINT and may save first); a second one kills them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "partita/comm/memory_folder.h"

namespace partita {

struct LaunchOptions {
  std::filesystem::path host_file;  // Open MPI's format, "node1 slots=4" per line; empty: this machine
  std::string bind = "none";        // none, core, socket or numa: pins each rank; core: one core per thread
  bool output_is_needed = false;    // Error at the end if the ranks' output cannot be written
  int64_t restarts = 0;             // the most times that ranks that have failed are started anew (restart_rule.h)
  bool reports_steps = true;        // of restart_rule.h
};

// Runs this program with the arguments `command` on every rank. Returns 0 if all ranks succeeded, 2 if they reported
// wrong usage. Errors: mpirun is not installed; a rank failed, with its number and signal or exit code. UsageError:
// ranks < 1 or more than 64 and 4 times the cores of each machine; an unknown `bind`.
//
// With options.restarts, ranks that fail are started again, as new processes after the old ones are gone, unless a
// signal has asked this process to stop. Where all ranks are on this machine, they get a folder in memory that lasts
// until the end (memory_folder.h).
[[nodiscard]] int launch(int ranks, const std::vector<std::string>& command, const LaunchOptions& options);

// The mpirun command of launch(). Pure. `cores`: of this machine, assumed for other hosts too; `hosts`: in the host
// file.
struct MpirunCall {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // to be added after removing kOuterVariables
};
// Variables from an outer launcher of this process, which would contradict mpirun's.
inline constexpr const char* kOuterVariables[] = {"RANK",
                                                  "WORLD_SIZE",
                                                  "LOCAL_RANK",
                                                  "PMI_RANK",
                                                  "LOCAL_WORLD_SIZE",
                                                  "PMI_SIZE",
                                                  internal::kMemoryFolder,
                                                  "TORCHELASTIC_RUN_ID"};
// User variables that are forwarded to other hosts. Each rank chooses its own threads (comm/host_threads.h).
inline constexpr const char* kForwarded[] = {"OMP_NUM_THREADS", "PARTITA_NUM_THREADS", "OMP_WAIT_POLICY",
                                             "GOMP_SPINCOUNT"};
struct LaunchMachine {
  int cores = 1, hosts = 1;
  bool root = false, slurm = false;      // root user; inside a Slurm allocation, whose slots mpirun uses
  std::vector<std::string> variables{};  // members of kForwarded that are set
  int terminal_width = 0;                // of stderr; 0: not a terminal
  std::string terminal{};                // its path, if ranks can open it
  bool one_terminal = false;             // stdout is the same terminal
  std::string shared_memory;             // folder for MPI's segments; empty: MPI's default
  std::string memory_folder{};           // memory_folder.h; empty: none
};
[[nodiscard]] MpirunCall mpirun_call(int ranks, const std::string& program, const std::vector<std::string>& command,
                                     const LaunchOptions& options, const LaunchMachine& machine);

}  // namespace partita
