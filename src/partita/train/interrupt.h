// Graceful stop: on Ctrl-C (SIGINT), SIGTERM, SIGHUP or SIGUSR1 (Slurm's --signal=USR1@120, `partita launch`) the run
// finishes the current step, saves and exits. The signal is acknowledged immediately; a second Ctrl-C ends the process.
//
//   InterruptGuard guard;                 // while the run lasts
//   set_interrupt_notice("Stopping after this step, ...\n");
//   if (interrupt_requested()) ...
//
// Signals that are ignored when the process starts (nohup, background jobs of a shell) stay ignored.
//
// Handlers run on their own stack: oneDNN's kernels keep data below the stack pointer beyond the 128-byte red zone, and
// a handler on the same stack would overwrite it.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace partita::internal {

enum class SignalAnswer : uint8_t { stop, end, ignore };

// What to do on `signal` when `earlier` (0: none) arrived `seconds` before. Pure. One key press may deliver two
// signals, and a scheduler sends SIGTERM some time after its warning, so only a deliberate repetition ends the process.
[[nodiscard]] SignalAnswer answer_signal(int signal, int earlier, double seconds);

// Whether the user asked for this signal. mpirun ends the other ranks by SIGTERM when one has failed, and kills them a
// second later: they can save nothing. launcher 0: not Open MPI's. Pure.
[[nodiscard]] bool is_wish(int signal, pid_t sender, pid_t launcher);

class InterruptGuard {
 public:
  // launcher: Open MPI's process that started this one; 0: there is none.
  explicit InterruptGuard(pid_t launcher = 0);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  std::vector<std::byte> stack_;  // this thread's handler stack; empty: the thread already had one
};

[[nodiscard]] bool interrupt_requested();

// What the handler writes to stderr when the user asks to stop; empty: nothing. Limited to about 200 bytes.
void set_interrupt_notice(const std::string& text);

// "Stopping after this step (about 40 s), then saving a checkpoint. Ctrl-C again stops now." step_seconds 0: unknown.
[[nodiscard]] std::string interrupt_notice(double step_seconds, bool saves);

}  // namespace partita::internal
