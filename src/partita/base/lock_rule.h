// Decides who may take a lock file, from what a process observes of its holder. Pure.
//
//   decide_lock({.kernel = KernelLock::held, .holder = true, .same_machine = true, .watched = 5})   // refuse
//
// Two signs show that a holder is alive. The kernel's lock is certain but has limited reach: processes on one machine,
// or on several if the file system forwards locks. The heartbeat, written to the file every ten seconds, works
// everywhere, but a silent holder may be dead, suspended or cut off from its disk.
#pragma once
#include <cstdint>

namespace partita::internal {

enum class KernelLock : uint8_t { free, held, unknown };  // unknown: the file system has no locks

struct LockView {
  KernelLock kernel = KernelLock::free;
  bool holder = false;        // the file names its holder
  bool same_machine = false;  // the holder runs, or ran, on this machine
  bool alive = false;         // on the same machine: the holder is running
  bool stopping = false;      // the holder announced that it is about to end
  double age = 0;             // seconds since its last heartbeat, by the file system's clock
  double watched = 0;         // seconds since this process started watching
  bool beats = false;         // a heartbeat arrived in that time
};

struct LockTimes {
  double grace = 0.5;     // for a process that is just ending
  double stale = 60;      // a holder on another machine is presumed dead without a heartbeat for this long
  double stopping = 120;  // for a holder that announced its end, which may be saving
};

enum class LockDecision : uint8_t {
  take,       // no holder
  take_over,  // its holder is gone
  wait,       // look again
  refuse      // the holder is alive
};

[[nodiscard]] LockDecision decide_lock(const LockView&, const LockTimes& = {});

}  // namespace partita::internal
