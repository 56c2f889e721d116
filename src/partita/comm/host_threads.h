// How many threads of the host a rank computes with.
//
//   const HostThreads threads = take_threads(world, config.train.threads);     // before anything is computed
//   log::debug("{}", threads.text);                    // "8 threads: 16 cores, shared by 2 ranks"
//
// What the user chose for Partita wins: the key train.threads, then PARTITA_NUM_THREADS; then OMP_NUM_THREADS.
// Otherwise a rank takes the cores of its affinity, those that several ranks of the machine may use divided among them,
// within the processor time that its control group grants. Hardware threads of one core count once: matrix products
// fill a core's vector units from one of them.
//
// torchrun sets OMP_NUM_THREADS=1 itself where it is unset, and says nowhere whether it did: under torchrun that one
// value is taken as nobody's choice.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partita/base/host_cores.h"
#include "partita/base/thread_limit.h"
#include "partita/comm/environment.h"
#include "partita/comm/world.h"

namespace partita::internal {

struct ThreadWishes {
  int64_t key = 0;                // train.threads; 0: not set
  int64_t partita = 0;            // PARTITA_NUM_THREADS; 0: not set
  int64_t openmp = 0;             // OMP_NUM_THREADS; 0: not set, or nobody's choice
  bool torchrun_default = false;  // OMP_NUM_THREADS=1 under torchrun
};
// Of the environment. Error: PARTITA_NUM_THREADS is not 1 .. kMostThreads. What libgomp would ignore in OMP_NUM_THREADS
// is ignored. Pure.
[[nodiscard]] ThreadWishes thread_wishes(int64_t key, const Lookup&);

struct HostThreads {
  int64_t count = 1;
  std::string text;  // with the reason, for the log
};
// Pure. `cores` has those of every rank of this machine, `rank` is the index of this one; quota as HostCores has it, of
// all of them together.
[[nodiscard]] HostThreads choose_threads(const ThreadWishes&, std::span<const std::vector<int>> cores, size_t rank,
                                         double quota);

// Chooses, and sets the threads of ATen and OpenMP in this process. key: 0, or what the user set for this command. All
// ranks of the world call it together; without a world the process has its cores to itself. Errors: those of
// require_threads.
HostThreads take_threads(World&, int64_t key);
HostThreads take_threads(int64_t key);

// Threads of text work, which gains from all hardware threads: PARTITA_NUM_THREADS, or what the affinity and the quota
// allow.
[[nodiscard]] int default_workers(const Lookup&);

}  // namespace partita::internal
