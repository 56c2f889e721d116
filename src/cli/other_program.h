// Programs of users as ranks of `partita launch`: each rank is this program first, and then becomes the other one.
// mpirun would take some of its arguments for its own.
//
//   require_program(words[0]);                              // launch, before it starts the ranks
//   if (is_launched() && names_program(words[0])) become(words);
#pragma once
#include <string>
#include <vector>

namespace partita::cli {
// Error (wrong usage): it is not there, or cannot be run.
void require_program(const std::string& path);

// Whether this process is a rank that launch has started.
[[nodiscard]] bool is_launched();

// Runs the program words[0] with the other words in place of this one.
[[noreturn]] void become(std::vector<std::string> words);

}  // namespace partita::cli
