// Slurm's compressed host lists: "n[1-3,07],login" is n1, n2, n3, n07, login.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace partita::internal {

// Hosts in the order written. Several brackets in one name multiply, last fastest; numbers keep their leading zeros.
// Errors: an unclosed bracket, an empty or descending range, something that is not a number in brackets.
[[nodiscard]] std::vector<std::string> expand_hostlist(std::string_view list);

}  // namespace partita::internal
