#include "partita/train/interrupt.h"

#include <array>
#include <csignal>

namespace partita {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};

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
  for (int signal : kSignals) std::signal(signal, request);
}

InterruptGuard::~InterruptGuard() {
  for (int signal : kSignals) std::signal(signal, SIG_DFL);
}

bool interrupt_requested() { return requested != 0; }

}  // namespace partita
