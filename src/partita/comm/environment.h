// The place of a process in its job, from the environment that its launcher made: Open MPI's mpirun, Slurm's srun,
// torchrun, variables set by hand, or nobody.
//
//   Launch launch = launch_of_this_process();
//   fmt::print("rank {} of {}\n", launch.rank, launch.size);
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "partita/comm/ancestors.h"

namespace partita {

inline constexpr int kMostRanks = 65536;

struct Launch {
  // open_mpi: mpirun. slurm_pmix: srun --mpi=pmix, MPI works. slurm: srun without PMIx, sockets. torchrun: torchrun, or
  // its variables set by hand.
  enum class Kind : uint8_t { single, open_mpi, slurm_pmix, slurm, torchrun } kind = Kind::single;
  int rank = 0, size = 1, local_rank = 0, local_size = 1;

  // The rest is for jobs over sockets (torchrun, slurm) of more than one rank.
  enum class Hosts : uint8_t { unknown, one, several } hosts = Hosts::unknown;
  // The host of rank 0. The fallback serves clusters whose node names do not resolve.
  std::string master_address{}, master_fallback{};
  // Rank 0 listens on the first free of `ports` ports from master_port on; with agent_store torchrun's own store
  // listens there, and tells the ranks where rank 0 is.
  int master_port = 0, ports = 1;
  bool agent_store = false;
  // What the processes of this job have in common and no other job has: attempts of one job differ, too. Not secret.
  std::string job{};
  std::string secret{};  // PARTITA_JOB_KEY, or empty

  [[nodiscard]] bool uses_mpi() const { return kind == Kind::open_mpi || kind == Kind::slurm_pmix; }
};

// The value of an environment variable, or nothing.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

[[nodiscard]] Lookup process_environment();

// Pure. Of several launchers the one that started this process last counts: the nearest among `ancestors`; where they
// do not tell, torchrun before mpirun before srun. RANK and WORLD_SIZE set by hand count before srun's variables, and
// next to mpirun's must agree with them. WORLD_SIZE=1 without a RANK above 0 says nothing. Inside sbatch or salloc but
// outside of srun the process is single.
// Errors name the variables: set by half, not a number, out of range, contradicting each other, or those of a launcher
// whose ranks cannot work together here (mpiexec of MPICH, Intel MPI and others).
[[nodiscard]] Launch detect_launch(const Lookup&, const internal::Ancestors& ancestors);

[[nodiscard]] Launch launch_of_this_process();

}  // namespace partita
