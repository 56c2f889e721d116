#include "partita/comm/foreign_launcher.h"

#include <fmt/format.h>

namespace partita::internal {
namespace {

struct Known {
  const char *name, *rank, *size;
};

// Launchers that also set PMI variables come before PMI, so that the user sees the familiar name.
constexpr Known kKnown[] = {
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"MVAPICH's mpirun_rsh", "MPIRUN_RANK", "MPIRUN_NPROCS"},
    {"MVAPICH", "MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE"},
    {"IBM's jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    {"Cray's PALS", "PALS_RANKID", "PALS_SIZE"},
    {"Cray's ALPS", "ALPS_APP_PE", "ALPS_APP_SIZE"},
    {"IBM's POE", "MP_CHILD", "MP_PROCS"},
    {"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    {"the mpiexec of MPICH, Intel MPI or another library with PMI", "PMI_RANK", "PMI_SIZE"},
    {"the mpiexec of MPICH or another library with PMI", "PMI_ID", "PMI_SIZE"},
    {"Fujitsu MPI or another library with PMIx", "PMIX_RANK", "PMIX_SIZE"},
};

}  // namespace

std::string ForeignLauncher::variables() const {
  if (size.empty()) return fmt::format("{}={}", rank_variable, rank);
  return fmt::format("{}={} and {}={}", rank_variable, rank, size_variable, size);
}

std::optional<ForeignLauncher> find_foreign_launcher(const Lookup& lookup) {
  for (const Known& known : kKnown) {
    if (const auto rank = lookup(known.rank))
      return ForeignLauncher{known.name, known.rank, known.size, *rank, lookup(known.size).value_or("")};
  }
  return {};
}

}  // namespace partita::internal
