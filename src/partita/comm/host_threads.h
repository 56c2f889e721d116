// Number of host threads per rank.
//
//   const HostThreads threads = configure_threads(world, config.train.threads);     // before any computation
//   log::debug("{}", threads.text);                    // "8 threads: 16 cores, shared by 2 ranks"
//
// Explicit settings take precedence: train.threads, then PARTITA_NUM_THREADS, then OMP_NUM_THREADS. Otherwise a rank
// uses the cores in its affinity mask, divided among the ranks of the machine that share them, within the CPU quota of
// its control group. Hyperthreads of a core count once: one thread saturates the core's vector units in matmuls.
//
// torchrun sets OMP_NUM_THREADS=1 if it is unset, without any indication: under torchrun the value 1 is therefore
// treated as unset.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partita/base/host_cores.h"
#include "partita/base/thread_limit.h"
#include "partita/comm/environment.h"
#include "partita/comm/world.h"

namespace partita {

struct HostThreads {
  int64_t count = 1;
  std::string text;  // includes the reason, for the log
};
// Chooses the number and applies it to ATen and OpenMP in this process. threads: the user's setting, or 0.
// Collective over the world; without a world the process has its cores to itself. Errors: those of require_threads.
HostThreads configure_threads(World&, int64_t threads = 0);
HostThreads configure_threads(int64_t threads);

namespace internal {

struct ThreadRequests {
  int64_t key = 0;                // train.threads; 0: not set
  int64_t partita = 0;            // PARTITA_NUM_THREADS; 0: not set
  int64_t openmp = 0;             // OMP_NUM_THREADS; 0: not set, or torchrun's default
  bool torchrun_default = false;  // OMP_NUM_THREADS=1 under torchrun
};
// Reads the environment. Error: PARTITA_NUM_THREADS is not in 1 .. kMostThreads. Values of OMP_NUM_THREADS that libgomp
// would ignore are ignored. Pure.
[[nodiscard]] ThreadRequests thread_requests(int64_t key, const Lookup&);

// Pure. cores[i]: cores available to rank i of this machine; `rank`: index of this rank; `quota`: total for all of
// them, see HostCores.
[[nodiscard]] HostThreads choose_threads(const ThreadRequests&, std::span<const std::vector<int>> cores, size_t rank,
                                         double quota);

// Threads for text processing, which benefits from hyperthreads: PARTITA_NUM_THREADS, or the limit from affinity and
// quota.
[[nodiscard]] int default_workers(const Lookup&);

}  // namespace internal
}  // namespace partita
