#include "partita/comm/ancestors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace partita {
namespace {

constexpr int kMostAncestors = 64;
constexpr std::string_view kWorkersByTorch[] = {"torchrun", "torch.distributed.", "torch/distributed/", "accelerate",
                                                "deepspeed"};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string program_name(std::string_view comm, std::string_view arguments) {
  // PyTorch gives its main thread, and so the process, another name than python's.
  const std::string_view first = arguments.substr(0, arguments.find('\0'));
  if (!first.substr(first.rfind('/') + 1).starts_with("python")) return std::string(comm);
  // Of its own arguments the interpreter's script or module tells; what comes after belongs to the workers.
  size_t begin = 0;
  for (int word = 0; word < 3 && begin < arguments.size(); ++word) {
    const size_t end = std::min(arguments.find('\0', begin), arguments.size());
    for (const std::string_view name : kWorkersByTorch)
      if (arguments.substr(begin, end - begin).find(name) != std::string_view::npos) return "torchrun";
    begin = end + 1;
  }
  return std::string(comm);
}

bool is_open_mpi_launcher(std::string_view program) {
  constexpr std::string_view kNames[] = {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prte", "prted"};
  return std::ranges::count(kNames, program) > 0;
}

std::vector<std::string> process_ancestors() {
  std::vector<std::string> names;
  for (long pid = getppid(); pid > 0 && names.size() < kMostAncestors;) {
    // "1234 (name) S 1 ...": the name may hold blanks and parentheses; the parent follows the state.
    const std::string stat = content(fmt::format("/proc/{}/stat", pid));
    const size_t open = stat.find('('), close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 >= stat.size()) break;
    names.push_back(program_name(std::string_view(stat).substr(open + 1, close - open - 1),
                                 content(fmt::format("/proc/{}/cmdline", pid))));
    pid = std::strtol(stat.c_str() + close + 4, nullptr, 10);
  }
  return names;
}

}  // namespace partita
