#include "cli/other_program.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "partita/base/error.h"
#include "partita/comm/mpirun_output.h"

namespace partita::cli {
using namespace internal;

void require_program(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw UsageError("launch: " + path + " is a folder, not a program");
  if (access(path.c_str(), X_OK) != 0)
    throw UsageError(fmt::format("launch: {} cannot be run: {}", path, std::strerror(errno)));
}

bool is_launched() { return std::getenv(MpirunOutput::kVariable) != nullptr; }

void become(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::signal(SIGXFSZ, SIG_DFL);  // what prepare_process has changed, and would be inherited
  execv(arguments[0], arguments.data());
  fail("{} cannot be run: {}", words[0], std::strerror(errno));
}

}  // namespace partita::cli
