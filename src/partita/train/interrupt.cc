#include "partita/train/interrupt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

namespace partita::internal {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
std::array<struct sigaction, kSignals.size()> before{};

constexpr size_t kStackBytes = 64 << 10;
// Seconds. Shorter than a deliberate second key press, longer than one key press takes to arrive over several paths.
constexpr double kSameRequest = 0.5;

volatile std::sig_atomic_t requested = 0;  // the first signal
volatile std::sig_atomic_t last = 0;
pid_t launcher_process = 0;
double last_time = 0;  // accessed only by handlers, which do not interrupt each other

// Double buffer: one notice can be replaced while the handler writes the other.
struct Notice {
  std::array<char, 256> text{};
  size_t length = 0;
};
std::array<Notice, 2> notices;
std::atomic<int> notice = 0;
static_assert(std::atomic<int>::is_always_lock_free);

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void say(const char* text, size_t length) {
  if (length > 0 && write(STDERR_FILENO, text, length) < 0) {
  }  // stderr is closed
}

void request(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  const SignalAnswer answer = answer_signal(signal, last, now() - last_time);
  if (answer == SignalAnswer::end) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (answer == SignalAnswer::stop) {
    requested = signal;
    const Notice& text = notices[static_cast<size_t>(notice.load())];
    if (is_wish(signal, info->si_pid, launcher_process)) say(text.text.data(), text.length);
  }
  // The first SIGTERM after another signal does nothing; the second one ends the process.
  if (answer != SignalAnswer::ignore || (signal == SIGTERM && last != SIGTERM)) {
    last = signal;
    last_time = now();
  }
  errno = saved;
}

}  // namespace

SignalAnswer answer_signal(int signal, int earlier, double seconds) {
  if (earlier == 0) return SignalAnswer::stop;
  const bool repeated = signal == SIGINT || (signal == SIGTERM && earlier == SIGTERM);
  return repeated && seconds >= kSameRequest ? SignalAnswer::end : SignalAnswer::ignore;
}

bool is_wish(int signal, pid_t sender, pid_t launcher) {
  return signal != SIGTERM || launcher == 0 || sender != launcher;
}

InterruptGuard::InterruptGuard(pid_t launcher) {
  requested = 0;
  last = 0;
  launcher_process = launcher;
  struct sigaction action {};
  action.sa_sigaction = request;
  action.sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO;
  for (int signal : kSignals) sigaddset(&action.sa_mask, signal);
  stack_t present{};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) != 0) {
    stack_.resize(kStackBytes);
    const stack_t own{.ss_sp = stack_.data(), .ss_flags = 0, .ss_size = stack_.size()};
    sigaltstack(&own, nullptr);
  }
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  set_interrupt_notice("");
  if (stack_.empty()) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
}

bool interrupt_requested() { return requested != 0; }

void set_interrupt_notice(const std::string& text) {
  const int other = 1 - notice.load();
  Notice& next = notices[static_cast<size_t>(other)];
  next.length = std::min(text.size(), next.text.size());
  std::memcpy(next.text.data(), text.data(), next.length);
  notice.store(other);
}

std::string interrupt_notice(double step_seconds, bool saves) {
  return fmt::format("Stopping after this step{}{}. Ctrl-C again stops now.",
                     step_seconds >= 1 ? fmt::format(" (about {:.0f} s)", step_seconds) : "",
                     saves ? ", then saving a checkpoint" : "; checkpoint.on_interrupt=false, so nothing is saved");
}

}  // namespace partita::internal
