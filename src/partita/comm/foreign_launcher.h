// Launchers of MPI libraries other than Open MPI. Their variables are detected so that their ranks are not mistaken for
// single processes, which would all train separately in the same folder.
#pragma once
#include <optional>
#include <string>

#include "partita/comm/environment.h"

namespace partita::internal {

struct ForeignLauncher {
  std::string name;  // "the mpiexec of MPICH, Intel MPI or another library with PMI"
  std::string rank_variable, size_variable;
  std::string rank, size;  // values of the variables; size may be empty

  [[nodiscard]] bool alone() const { return size == "1"; }  // a single-rank job needs no launcher
  [[nodiscard]] std::string variables() const;              // "PMI_RANK=1 and PMI_SIZE=2"
};

// Pure. The first one whose rank variable is set.
[[nodiscard]] std::optional<ForeignLauncher> find_foreign_launcher(const Lookup&);

}  // namespace partita::internal
