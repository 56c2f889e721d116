// The processors that this process may use: by its affinity (taskset, mpirun's and srun's binding, cpusets of
// containers) and by the processor time that its control groups grant.
//
//   const HostCores host = host_cores();
//   fmt::print("{} CPUs on {} cores\n", host.cpus.size(), host.cores.size());
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace partita::internal {

struct HostCores {
  std::vector<int> cpus;   // logical, ascending
  std::vector<int> cores;  // each once, ascending, by the lowest CPU number of its hardware threads
  double quota = 0;        // CPUs' worth of time; 0: no limit

  // How many processes or threads of text work run at once: hardware threads count, a part of a quota as a whole. At
  // least 1.
  [[nodiscard]] int workers() const;
};

// Of the calling thread. What /proc and /sys do not tell is taken as: no hardware threads, no quota.
[[nodiscard]] HostCores host_cores();

// The same by the files below `root`, with the affinity given. For tests.
[[nodiscard]] HostCores host_cores(std::vector<int> affinity, const std::filesystem::path& root);

// "0-3,8" as 0 1 2 3 8; what is not such a list: empty.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view);

}  // namespace partita::internal
