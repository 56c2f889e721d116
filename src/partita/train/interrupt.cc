#include "partita/train/interrupt.h"

#include <array>
#include <csignal>

namespace partita {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};
std::array<struct sigaction, kSignals.size()> before{};

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
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

bool interrupt_requested() { return requested != 0; }

}  // namespace partita
