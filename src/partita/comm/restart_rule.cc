#include "partita/comm/restart_rule.h"

#include <fmt/format.h>

namespace partita::internal {
namespace {

constexpr size_t kWithoutProgress = 2;  // starts in a row

}  // namespace

RestartDecision decide_restart(std::span<const StartEnd> ends, int64_t most, bool reports_steps) {
  if (most <= 0) return {};
  const StartEnd& last = ends.back();
  if (last.steps == 0 && !last.killed) return {.reason = "no step was complete, so that a restart would fail, too"};
  if ((reports_steps || last.steps > 0) && ends.size() > kWithoutProgress &&
      last.steps <= ends[ends.size() - 1 - kWithoutProgress].steps)
    return {.reason = "no progress, since two restarts in a row have come no further than the start before them"};
  if (std::ssize(ends) > most)
    return {.reason = most == 1 ? "the only restart was made" : fmt::format("all {} restarts were made", most)};
  return {.restarts = true};
}

}  // namespace partita::internal
