// Checks in advance that the system lets this process start the threads it needs. OpenMP would abort the process with
// its own message if a thread cannot be started.
//
//   require_threads(at::get_num_threads());
#pragma once
#include <cstdint>

namespace partita::internal {

inline constexpr int64_t kMostThreads = 1024;  // per process

// Error: more than kMostThreads; the system refuses to start them (ulimit -u, ulimit -v, a control group).
void require_threads(int64_t count);

}  // namespace partita::internal
