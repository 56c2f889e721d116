// Decides whether `partita launch --restarts N` starts the ranks anew after they have failed. Pure.
//
//   std::vector<StartEnd> ends;                       // of all starts so far
//   const RestartDecision next = decide_restart(ends, 3, /*reports_steps=*/true);
//   if (next.restarts) ...
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace partita::internal {

// How a start of the ranks has failed. A start that was complete, or that a user interrupted, is none of these.
struct StartEnd {
  bool killed = false;  // a rank, or mpirun, was ended by a signal; else by an error of its own
  int64_t steps = 0;    // that the job had come to, counting all starts so far; 0: none was complete
};

struct RestartDecision {
  bool restarts = false;
  std::string reason{};  // why not, as the end of a sentence; empty: no restart was asked for
};

// ends: oldest first, at least one. most: restarts. reports_steps: the ranks are known to report their steps; else they
// may be a program that does not.
//
// An error before the first step of all starts is one of the configuration, which the next start would meet, too. Two
// starts in a row that come no further than those before them make no progress, and nor would the next.
[[nodiscard]] RestartDecision decide_restart(std::span<const StartEnd> ends, int64_t most, bool reports_steps);

}  // namespace partita::internal
