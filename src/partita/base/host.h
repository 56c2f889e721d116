// The name of this machine, for files that record where they were written.
#pragma once
#include <string>

namespace partita::internal {

[[nodiscard]] std::string host_name();  // "localhost" if the system has none

}  // namespace partita::internal
