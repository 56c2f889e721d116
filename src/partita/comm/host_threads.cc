#include "partita/comm/host_threads.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/base/host.h"
#include "partita/base/log.h"
#include "partita/base/number.h"

namespace partita::internal {
namespace {

constexpr const char* kOwnVariable = "PARTITA_NUM_THREADS";
constexpr const char* kOpenMpVariable = "OMP_NUM_THREADS";

// 0: not a number in the valid range.
int64_t parse_threads(std::string_view text) {
  const int64_t value = parse_number<int64_t>(text).value_or(0);
  return value >= 1 && value <= kMostThreads ? value : 0;
}

int64_t own_variable(const Lookup& lookup) {
  const auto text = lookup(kOwnVariable);
  if (!text || text->empty()) return 0;
  const int64_t threads = parse_threads(*text);
  if (threads == 0)
    fail("environment variable {}={}: expected a number of threads from 1 to {}", kOwnVariable, *text, kMostThreads);
  return threads;
}

HostThreads set(HostThreads threads, const ThreadRequests& wishes, int rank) {
  require_threads(threads.count);
  at::set_num_threads(static_cast<int>(threads.count));
  log::debug("{}", threads.text);
  if (wishes.torchrun_default && rank == 0 && wishes.key == 0 && wishes.partita == 0)
    log::info("{}; OMP_NUM_THREADS=1 is torchrun's default: set PARTITA_NUM_THREADS to choose", threads.text);
  return threads;
}

}  // namespace

ThreadRequests thread_requests(int64_t key, const Lookup& lookup) {
  ThreadRequests wishes{.key = key, .partita = own_variable(lookup)};
  const std::string openmp = lookup(kOpenMpVariable).value_or("");
  wishes.torchrun_default = openmp == "1" && lookup("TORCHELASTIC_RUN_ID").has_value();
  // "4,2" lists nested levels of parallelism; the first one applies here.
  if (!wishes.torchrun_default) wishes.openmp = parse_threads(std::string_view(openmp).substr(0, openmp.find(',')));
  return wishes;
}

HostThreads choose_threads(const ThreadRequests& wishes, std::span<const std::vector<int>> cores, size_t rank,
                           double quota) {
  const auto chosen = [](int64_t count, const char* by) {
    return HostThreads{count, fmt::format("{} thread{}: {}", count, count == 1 ? "" : "s", by)};
  };
  if (wishes.key > 0) return chosen(wishes.key, "train.threads");
  if (wishes.partita > 0) return chosen(wishes.partita, kOwnVariable);
  if (wishes.openmp > 0) return chosen(wishes.openmp, kOpenMpVariable);
  std::map<int, int> users;  // per core
  for (const std::vector<int>& of_rank : cores)
    for (const int core : of_rank) ++users[core];
  double share = 0;
  int most_users = 1;
  for (const int core : cores[rank]) {
    share += 1.0 / users[core];
    most_users = std::max(most_users, users[core]);
  }
  std::string why = fmt::format("{} core{}", cores[rank].size(), cores[rank].size() == 1 ? "" : "s");
  if (most_users > 1) why += fmt::format(", shared by {} ranks", most_users);
  if (const double granted = quota / static_cast<double>(cores.size()); quota > 0 && granted < share) {
    share = granted;
    why += fmt::format(", a control group grants {:.3g} CPUs", quota);
  }
  constexpr double kRounding = 1e-6;  // of the sum, so that three thirds make one core
  return chosen(std::clamp<int64_t>(static_cast<int64_t>(share + kRounding), 1, kMostThreads), why.c_str());
}

int default_workers(const Lookup& lookup) {
  const int64_t chosen = own_variable(lookup);
  return chosen > 0 ? static_cast<int>(chosen) : host_cores().workers();
}

}  // namespace partita::internal

namespace partita {
using namespace internal;

HostThreads configure_threads(World& world, int64_t key) {
  if (world.size() == 1) return configure_threads(key);
  const ThreadRequests wishes = thread_requests(key, process_environment());
  const HostCores host = host_cores();
  const std::string machine = host_name() + ' ';
  const std::vector<std::string> all =
      gather_strings(*world.everyone("threads"), fmt::format("{}{}", machine, fmt::join(host.cores, ",")));
  std::vector<std::vector<int>> cores;
  size_t index = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].starts_with(machine)) continue;
    if (rank == static_cast<size_t>(world.rank())) index = cores.size();
    cores.push_back(parse_cpu_list(std::string_view(all[rank]).substr(machine.size())));
  }
  return set(choose_threads(wishes, cores, index, host.quota), wishes, world.rank());
}

HostThreads configure_threads(int64_t key) {
  const ThreadRequests wishes = thread_requests(key, process_environment());
  const HostCores host = host_cores();
  return set(choose_threads(wishes, std::span(&host.cores, 1), 0, host.quota), wishes, 0);
}

}  // namespace partita
