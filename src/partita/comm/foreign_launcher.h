// Launchers of MPI libraries other than Open MPI. Their variables are known so that their ranks are told apart from
// processes that nobody launched: each of them would train alone, all in one folder.
#pragma once
#include <optional>
#include <string>

#include "partita/comm/environment.h"

namespace partita::internal {

struct ForeignLauncher {
  std::string name;  // "the mpiexec of MPICH, Intel MPI or another library with PMI"
  std::string rank_variable, size_variable;
  std::string rank, size;  // as the variables say; size is empty where it is not set

  [[nodiscard]] bool alone() const { return size == "1"; }  // a job of one rank needs no launcher
  [[nodiscard]] std::string variables() const;              // "PMI_RANK=1 and PMI_SIZE=2"
};

// Pure. The first whose rank is set.
[[nodiscard]] std::optional<ForeignLauncher> find_foreign_launcher(const Lookup&);

}  // namespace partita::internal
