// Escapes arguments that pass through mpirun, which would interpret some of them: ":" ends a program's arguments, and
// options such as -x, --tune or -mca are recognized anywhere.
//
//   to_launched({"train", "c.toml", "--train.steps=3", ":"})  ->  {"train", "c.toml", "=--train.steps=3", "=:"}
#pragma once
#include <string>
#include <vector>

namespace partita::internal {

// Pure. Prefixes = to each argument that begins with -, : or =, or is empty.
[[nodiscard]] std::vector<std::string> to_launched(std::vector<std::string> arguments);
// Pure. The inverse.
[[nodiscard]] std::vector<std::string> from_launched(std::vector<std::string> arguments);

// The arguments of this process, without the program name, whether started by launch() or by the user.
[[nodiscard]] std::vector<std::string> own_arguments(int argc, const char* const* argv);

}  // namespace partita::internal
