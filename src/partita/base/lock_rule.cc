#include "partita/base/lock_rule.h"

namespace partita::internal {
namespace {

LockDecision wait_until(const LockView& v, double limit) {
  return v.watched < limit ? LockDecision::wait : LockDecision::refuse;
}

}  // namespace

LockDecision decide_lock(const LockView& v, const LockTimes& times) {
  if (v.kernel == KernelLock::held) {
    // If the holder's machine has died, the file server releases its locks only after some time.
    const bool silent = v.holder && !v.same_machine && !v.beats;
    if (v.stopping) return wait_until(v, times.stopping);
    return wait_until(v, silent ? times.stale : times.grace);
  }
  if (!v.holder) return LockDecision::take;
  if (v.same_machine) {
    if (v.kernel == KernelLock::free || !v.alive) return LockDecision::take_over;
    return wait_until(v, v.stopping ? times.stopping : times.grace);
  }
  if (v.beats) return v.stopping ? wait_until(v, times.stopping) : LockDecision::refuse;
  return v.age >= times.stale || v.watched >= times.stale ? LockDecision::take_over : LockDecision::wait;
}

}  // namespace partita::internal
