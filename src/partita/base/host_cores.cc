#include "partita/base/host_cores.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "partita/base/number.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCpus = 1 << 16;  // maximum accepted in a list

std::vector<int> affinity() {
  std::vector<int> cpus;
  for (int size = 1024; cpus.empty() && size <= kMostCpus; size *= 2) {  // the kernel rejects sets that are too small
    cpu_set_t* set = CPU_ALLOC(size);
    const size_t bytes = CPU_ALLOC_SIZE(size);
    if (set != nullptr && sched_getaffinity(0, bytes, set) == 0)
      for (int cpu = 0; cpu < size; ++cpu)
        if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    CPU_FREE(set);
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

// With OMP_PROC_BIND or OMP_PLACES, OpenMP binds the first thread to one place at load time, and other threads to
// theirs: the process may use all places.
std::vector<int> with_openmp_places(std::vector<int> cpus) {
  const auto count = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_num_places"));
  const auto size_of_place = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "omp_get_place_num_procs"));
  const auto cpus_of_place = reinterpret_cast<void (*)(int, int*)>(dlsym(RTLD_DEFAULT, "omp_get_place_proc_ids"));
  if (count == nullptr || size_of_place == nullptr || cpus_of_place == nullptr) return cpus;
  for (int place = 0; place < count(); ++place) {
    std::vector<int> there(static_cast<size_t>(std::max(size_of_place(place), 0)));
    if (there.empty()) continue;
    cpus_of_place(place, there.data());
    cpus.insert(cpus.end(), there.begin(), there.end());
  }
  std::ranges::sort(cpus);
  cpus.erase(std::ranges::unique(cpus).begin(), cpus.end());
  return cpus;
}

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return {};
  return line;
}

// "150000 100000" (version 2), "max 100000", or two files (version 1), where -1 means no limit.
double quota_of(const fs::path& group) {
  std::optional<double> time, period;
  if (const auto line = first_line(group / "cpu.max")) {
    const size_t space = line->find(' ');
    time = parse_number<double>(std::string_view(*line).substr(0, space));
    if (space != std::string::npos) period = parse_number<double>(std::string_view(*line).substr(space + 1));
  } else {
    if (const auto text = first_line(group / "cpu.cfs_quota_us")) time = parse_number<double>(*text);
    if (const auto text = first_line(group / "cpu.cfs_period_us")) period = parse_number<double>(*text);
  }
  return time && period && *time > 0 && *period > 0 ? *time / *period : std::numeric_limits<double>::infinity();
}

// The minimum over the process's groups and their parents; 0: no limit.
double least_quota(const fs::path& root) {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice" or "4:cpu,cpuacct:/user.slice"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    std::vector<fs::path> mounts;
    if (controllers == ",,") mounts = {root / "sys/fs/cgroup"};
    if (controllers.find(",cpu,") != std::string::npos)
      mounts = {root / "sys/fs/cgroup/cpu", root / "sys/fs/cgroup/cpu,cpuacct"};
    for (const fs::path& mount : mounts)
      for (fs::path group = path;; group = group.parent_path()) {
        least = std::min(least, quota_of(mount / group));
        if (group.empty()) break;
      }
  }
  return std::isinf(least) ? 0 : least;
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char *at = text.data(), *end = text.data() + text.size();
  while (at != end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc{} || first < 0 || first >= kMostCpus) return {};
    int last = first;
    if (next != end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc{} || last < first || last >= kMostCpus) return {};
      next = range.ptr;
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (next != end && *next != ',') return {};
    at = next == end ? end : next + 1;
    if (next != end && at == end) return {};  // trailing comma
  }
  return cpus;
}

int HostCores::workers() const {
  const auto all = static_cast<int>(std::min<size_t>(cpus.size(), kMostCpus));
  const int granted = quota > 0 ? static_cast<int>(std::min(std::ceil(quota), double{kMostCpus})) : all;
  return std::max(1, std::min(all, granted));
}

HostCores host_cores(std::vector<int> affinity, const fs::path& root) {
  HostCores host{.cpus = std::move(affinity), .cores = {}, .quota = least_quota(root)};
  for (const int cpu : host.cpus) {
    const auto siblings =
        first_line(root / fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    const std::vector<int> threads = siblings ? parse_cpu_list(*siblings) : std::vector<int>();
    host.cores.push_back(std::ranges::find(threads, cpu) != threads.end() ? std::ranges::min(threads) : cpu);
  }
  std::ranges::sort(host.cores);
  host.cores.erase(std::ranges::unique(host.cores).begin(), host.cores.end());
  return host;
}

HostCores host_cores() { return host_cores(with_openmp_places(affinity()), "/"); }

}  // namespace partita::internal
