// Whether the system lets this process start the threads that it is about to use. OpenMP ends the process where a
// thread cannot be started, in words of its own: this finds out before.
//
//   require_threads(at::get_num_threads());
#pragma once
#include <cstdint>

namespace partita::internal {

inline constexpr int64_t kMostThreads = 1024;  // per process

// Error: more than kMostThreads; the system refuses to start them (ulimit -u, ulimit -v, a control group).
void require_threads(int64_t count);

}  // namespace partita::internal
