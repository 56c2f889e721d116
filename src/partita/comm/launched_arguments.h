// Arguments on their way through mpirun, which would take some of them for its own: ":" ends a program's arguments, and
// options such as -x, --tune or -mca are looked for among all words.
//
//   to_launched({"train", "c.toml", "--train.steps=3", ":"})  ->  {"train", "c.toml", "=--train.steps=3", "=:"}
#pragma once
#include <string>
#include <vector>

namespace partita::internal {

// Pure. With a = in front of each that begins with -, : or =, or is empty.
[[nodiscard]] std::vector<std::string> to_launched(std::vector<std::string> arguments);
// Pure. The reverse.
[[nodiscard]] std::vector<std::string> from_launched(std::vector<std::string> arguments);

// Those of this process, without the program's name: a rank that launch() started, or a program that a user did.
[[nodiscard]] std::vector<std::string> own_arguments(int argc, const char* const* argv);

}  // namespace partita::internal
