// CPUs available to this process: limited by affinity (taskset, binding by mpirun and srun, container cpusets) and by
// the CPU quota of its control groups.
//
//   const HostCores host = host_cores();
//   fmt::print("{} CPUs on {} cores\n", host.cpus.size(), host.cores.size());
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace partita::internal {

struct HostCores {
  std::vector<int> cpus;   // logical CPUs, ascending
  std::vector<int> cores;  // physical cores, ascending, each given as its lowest CPU number
  double quota = 0;        // in CPUs; 0: no limit

  // Number of workers for text processing: counts hyperthreads and rounds the quota up. At least 1.
  [[nodiscard]] int workers() const;
};

// For the calling thread. Missing information in /proc and /sys is taken as no hyperthreads, no quota.
[[nodiscard]] HostCores host_cores();

// The same with files below `root` and a given affinity. For tests.
[[nodiscard]] HostCores host_cores(std::vector<int> affinity, const std::filesystem::path& root);

// Parses "0-3,8" as 0 1 2 3 8; empty if malformed.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view);

}  // namespace partita::internal
