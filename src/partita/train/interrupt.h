// A polite request to stop: Ctrl-C (SIGINT), SIGTERM and SIGUSR1 (Slurm's --signal=USR1@120, `partita launch`) ask the
// run to end after the present step, saving first. A second Ctrl-C ends the process at once.
//
//   InterruptGuard guard;                 // for the time of the run
//   if (interrupt_requested()) ...
#pragma once

namespace partita {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

[[nodiscard]] bool interrupt_requested();

}  // namespace partita
