// The rank of a process in its job, from the environment set by its launcher: Open MPI's mpirun, Slurm's srun,
// torchrun, variables set by hand, or none.
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
  // open_mpi: mpirun. slurm_pmix: srun --mpi=pmix, with MPI. slurm: srun without PMIx, with sockets. torchrun:
  // torchrun, or its variables set by hand.
  enum class Kind : uint8_t { single, open_mpi, slurm_pmix, slurm, torchrun } kind = Kind::single;
  int rank = 0, size = 1, local_rank = 0, local_size = 1;

  // The rest applies to socket jobs (torchrun, slurm) of more than one rank.
  enum class Hosts : uint8_t { unknown, one, several } hosts = Hosts::unknown;
  // The host of rank 0. The fallback is for clusters whose node names do not resolve.
  std::string master_address{}, master_fallback{};
  // Rank 0 listens on the first free one of `ports` ports, starting at master_port. With agent_store, torchrun's own
  // store listens there and tells the ranks where rank 0 is.
  int master_port = 0, ports = 1;
  bool agent_store = false;
  // Common to all processes of this job and to no other job, nor to another attempt of the same job. Not secret.
  std::string job{};
  std::string secret{};  // PARTITA_JOB_KEY; may be empty

  [[nodiscard]] bool uses_mpi() const { return kind == Kind::open_mpi || kind == Kind::slurm_pmix; }
};

// The value of an environment variable, or nullopt.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

[[nodiscard]] Lookup process_environment();

// Pure. With several launchers, the innermost wins: the nearest among `ancestors`; if these are inconclusive, torchrun,
// then mpirun, then srun. RANK and WORLD_SIZE set by hand take precedence over srun's variables and must agree with
// mpirun's. WORLD_SIZE=1 without a RANK above 0 is ignored. Inside sbatch or salloc but outside srun the process is
// single.
// Errors name the variables: incomplete, not a number, out of range, contradictory, or from a launcher whose ranks
// cannot work together here (mpiexec of MPICH, Intel MPI and others).
[[nodiscard]] Launch detect_launch(const Lookup&, const internal::Ancestors& ancestors);

[[nodiscard]] Launch launch_of_this_process();

}  // namespace partita
