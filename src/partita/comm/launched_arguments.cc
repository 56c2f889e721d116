#include "partita/comm/launched_arguments.h"

#include <cstdlib>

#include "partita/comm/mpirun_output.h"

namespace partita::internal {

std::vector<std::string> to_launched(std::vector<std::string> arguments) {
  for (std::string& argument : arguments)
    if (argument.empty() || argument[0] == '-' || argument[0] == ':' || argument[0] == '=') argument.insert(0, 1, '=');
  return arguments;
}

std::vector<std::string> from_launched(std::vector<std::string> arguments) {
  for (std::string& argument : arguments)
    if (argument.starts_with('=')) argument.erase(0, 1);
  return arguments;
}

std::vector<std::string> own_arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return std::getenv(MpirunOutput::kVariable) != nullptr ? from_launched(std::move(arguments)) : arguments;
}

}  // namespace partita::internal
