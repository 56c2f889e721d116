#include "partita/train/interrupt.h"

#include <array>
#include <csignal>

namespace partita {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};
std::array<struct sigaction, kSignals.size()> before{};

constexpr size_t kStackBytes = 64 << 10;

volatile std::sig_atomic_t requested = 0;

void request(int signal) {
  if (signal == SIGINT && requested != 0) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  requested = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  requested = 0;
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  stack_t present{};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) != 0) {
    stack_.resize(kStackBytes);
    const stack_t own{.ss_sp = stack_.data(), .ss_flags = 0, .ss_size = stack_.size()};
    sigaltstack(&own, nullptr);
  }
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  if (stack_.empty()) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  sigaltstack(&none, nullptr);
}

bool interrupt_requested() { return requested != 0; }

}  // namespace partita
