// A polite request to stop: Ctrl-C (SIGINT), SIGTERM and SIGUSR1 (Slurm's --signal=USR1@120, `partita launch`) ask the
// run to end after the present step, saving first. A second Ctrl-C ends the process at once.
//
//   InterruptGuard guard;                 // for the time of the run
//   if (interrupt_requested()) ...
//
// Signals are handled on a stack of their own: oneDNN's kernels keep data below the stack pointer, further than the 128
// bytes that a handler on the same stack would spare, and their memory would be overwritten.
#pragma once
#include <cstddef>
#include <vector>

namespace partita {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  std::vector<std::byte> stack_;  // of the handler in this thread; empty: the thread had one already
};

[[nodiscard]] bool interrupt_requested();

}  // namespace partita
