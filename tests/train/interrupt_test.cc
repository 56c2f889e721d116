#include "partita/train/interrupt.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "partita/ops/matmul.h"

namespace partita {
namespace {

TEST(Interrupt, IsRequestedByASignalWhileGuarded) {
  for (int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    const InterruptGuard guard;
    EXPECT_FALSE(interrupt_requested());
    std::raise(signal);
    EXPECT_TRUE(interrupt_requested());
  }
}

TEST(Interrupt, TheThreadIsAsBeforeAfterwards) {
  stack_t before{}, during{}, after{};
  struct sigaction handler_before {
  }, handler_after{};
  sigaltstack(nullptr, &before);
  sigaction(SIGUSR1, nullptr, &handler_before);
  {
    const InterruptGuard guard;
    sigaltstack(nullptr, &during);
    EXPECT_EQ(during.ss_flags & SS_DISABLE, 0);
  }
  sigaltstack(nullptr, &after);
  sigaction(SIGUSR1, nullptr, &handler_after);
  EXPECT_EQ(after.ss_flags, before.ss_flags);
  EXPECT_EQ(handler_after.sa_handler, handler_before.sa_handler);
}

// On the stack of the products a handler overwrites what they keep there: wrong numbers, or a damaged heap.
TEST(Interrupt, SignalsDoNotDisturbProducts) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  {
    const InterruptGuard guard;
    std::atomic<bool> done = false;
    std::thread sender([&done, to = pthread_self()] {
      while (!done) {
        pthread_kill(to, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    for (const int64_t in : {28, 112})
      for (const int64_t out : {28, 84, 320}) {
        const at::Tensor x = at::randn({64, in}), w = at::randn({out, in}), first = at::empty({64, out}),
                         again = at::empty({64, out});
        linear_forward(first, x, w);
        bool same = true;
        for (int i = 0; i < 5000; ++i) {
          linear_forward(again, x, w);
          same = same && at::equal(again, first);
        }
        EXPECT_TRUE(same) << in << " to " << out;
      }
    done = true;
    sender.join();
    EXPECT_TRUE(interrupt_requested());
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace partita
