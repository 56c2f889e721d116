// Slurm's compressed host lists: "n[1-3,07],login" is n1, n2, n3, n07, login.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

// Hosts in order. Several brackets in a name multiply, the last varying fastest; leading zeros are kept. Errors: an
// unclosed bracket; an empty or descending range; a non-number in brackets.
[[nodiscard]] std::vector<std::string> expand_hostlist(std::string_view list);

}  // namespace partita::internal
