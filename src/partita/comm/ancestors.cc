#include "partita/comm/ancestors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "partita/base/process_stat.h"

namespace partita::internal {
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
  // PyTorch renames its main thread, and thereby the process.
  const std::string_view first = arguments.substr(0, arguments.find('\0'));
  if (!first.substr(first.rfind('/') + 1).starts_with("python")) return std::string(comm);
  // The interpreter's own arguments name the script or module; what follows is for the workers.
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
  for (int64_t pid = getppid(); pid > 0 && names.size() < kMostAncestors;) {
    const auto stat = process_stat(pid);
    if (!stat) break;
    names.push_back(program_name(stat->name, content(fmt::format("/proc/{}/cmdline", pid))));
    pid = stat->parent;
  }
  return names;
}

}  // namespace partita::internal
