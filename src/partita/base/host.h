// The name of this machine, for files that say where they were written.
#pragma once
#include <string>

namespace partita::internal {

[[nodiscard]] std::string host_name();  // "localhost" where the system knows none

}  // namespace partita::internal
