// Where a process stands in its job, from the environment its launcher made: Open MPI's mpirun, Slurm's srun, torchrun,
// or nobody.
//
//   Launch launch = detect_launch(process_environment());
//   fmt::print("rank {} of {}\n", launch.rank, launch.size);
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace partita {

struct Launch {
  // open_mpi: mpirun. slurm_pmix: srun --mpi=pmix, MPI works. slurm: srun --mpi=none, sockets. torchrun: its variables.
  enum class Kind : uint8_t { single, open_mpi, slurm_pmix, slurm, torchrun } kind = Kind::single;
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  // torchrun, slurm: where rank 0 listens. The fallback serves clusters whose node names do not resolve.
  std::string master_address{}, master_fallback{};
  int master_port = 0;
  std::string job{};  // torchrun, slurm: tells the job's ranks from those of another job that uses the same port

  [[nodiscard]] bool uses_mpi() const { return kind == Kind::open_mpi || kind == Kind::slurm_pmix; }
};

// The value of an environment variable, or nothing.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

[[nodiscard]] Lookup process_environment();

// Pure. Of several launchers the innermost wins: mpirun, then torchrun's variables, then srun. Inside sbatch or salloc
// but outside of srun the process is single. Errors name the variable: set by half, not a number, rank >= size.
[[nodiscard]] Launch detect_launch(const Lookup&);

}  // namespace partita
