// Who may have a lock file: a decision on what a process sees of the one that holds it. Pure.
//
//   decide_lock({.kernel = KernelLock::held, .holder = true, .same_machine = true, .watched = 5})   // refuse
//
// Two things tell that a holder lives. The kernel's lock is certain, but only where it reaches: processes of one
// machine, and of several on file systems that pass locks on. The heartbeat, which the holder writes into the file
// every ten seconds, reaches everywhere, but a holder that writes none may be dead, suspended or cut off from its disk.
#pragma once
#include <cstdint>

namespace partita::internal {

enum class KernelLock : uint8_t { free, held, unknown };  // unknown: the file system has no locks

struct LockView {
  KernelLock kernel = KernelLock::free;
  bool holder = false;        // the file says who holds it
  bool same_machine = false;  // that process runs, or ran, on this machine
  bool alive = false;         // of the same machine: it runs
  bool stopping = false;      // it says that it is about to end
  double age = 0;             // seconds from its last heartbeat to now, both by the clock of the file system
  double watched = 0;         // seconds that this process has been looking
  bool beats = false;         // a heartbeat came in that time
};

struct LockTimes {
  double grace = 0.5;     // of a process that ends at this moment
  double stale = 60;      // without a heartbeat for so long a holder on another machine is taken for dead
  double stopping = 120;  // of one that says so: it may be saving
};

enum class LockDecision : uint8_t {
  take,       // nobody had it
  take_over,  // its holder is gone
  wait,       // look again
  refuse      // its holder lives
};

[[nodiscard]] LockDecision decide_lock(const LockView&, const LockTimes& = {});

}  // namespace partita::internal
