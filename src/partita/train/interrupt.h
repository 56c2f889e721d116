// A polite request to stop: Ctrl-C (SIGINT), SIGTERM, SIGHUP and SIGUSR1 (Slurm's --signal=USR1@120, `partita launch`)
// ask the run to end after the step that it is in, saving first. It is answered at once; a second Ctrl-C ends the
// process.
//
//   InterruptGuard guard;                 // for the time of the run
//   set_interrupt_notice("Stopping after this step, ...\n");
//   if (interrupt_requested()) ...
//
// A signal that the process was started to ignore (nohup, a shell's background) stays ignored.
//
// Signals are handled on a stack of their own: oneDNN's kernels keep data below the stack pointer, further than the 128
// bytes that a handler on the same stack would spare, and their memory would be overwritten.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace partita::internal {

enum class SignalAnswer : uint8_t { stop, end, ignore };

// What to do on `signal` when `earlier` (0: none) came `seconds` before. Pure. One key press may reach a process twice,
// as two signals, and a scheduler sends SIGTERM some time after its warning: so only what is repeated on purpose ends
// it.
[[nodiscard]] SignalAnswer answer_signal(int signal, int earlier, double seconds);

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

// What the handler writes to stderr when a request arrives; empty: nothing. At most some 200 bytes.
void set_interrupt_notice(const std::string& text);

// "Stopping after this step (about 40 s), then saving a checkpoint. Ctrl-C again stops now." step_seconds: 0: not
// known.
[[nodiscard]] std::string interrupt_notice(double step_seconds, bool saves);

}  // namespace partita::internal
