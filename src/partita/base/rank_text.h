// The rank that an error message speaks of, named once however many callers pass the message on. Pure.
//
//   of_rank(3, "disk full")            // "rank 3: disk full"
//   of_rank(0, "rank 3: disk full")    // the same
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

[[nodiscard]] std::string of_rank(int rank, std::string_view message);

}  // namespace partita::internal
