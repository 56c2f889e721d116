#include "partita/train/interrupt.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "partita/ops/matmul.h"

namespace partita::internal {
namespace {

TEST(Interrupt, IsRequestedByASignalWhileGuarded) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const InterruptGuard guard;
    EXPECT_FALSE(interrupt_requested());
    std::raise(signal);
    EXPECT_TRUE(interrupt_requested());
  }
}

TEST(Interrupt, OnlyARepeatedWishEndsAtOnce) {
  const std::vector<int> all = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  for (int signal : all) EXPECT_EQ(answer_signal(signal, 0, 0), SignalAnswer::stop);
  for (int earlier : all) {
    // Ctrl-C that reaches a process from the terminal and from its launcher.
    for (int signal : all) EXPECT_EQ(answer_signal(signal, earlier, 0.1), SignalAnswer::ignore);
    EXPECT_EQ(answer_signal(SIGINT, earlier, 2), SignalAnswer::end);
    EXPECT_EQ(answer_signal(SIGUSR1, earlier, 2), SignalAnswer::ignore);
    EXPECT_EQ(answer_signal(SIGHUP, earlier, 2), SignalAnswer::ignore);
    // Slurm: USR1 some time before the limit, SIGTERM at it; the run may still be saving.
    EXPECT_EQ(answer_signal(SIGTERM, earlier, 2), earlier == SIGTERM ? SignalAnswer::end : SignalAnswer::ignore);
  }
}

TEST(Interrupt, WhatIsIgnoredFromTheStartStaysSo) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const InterruptGuard guard;
    std::raise(SIGHUP);
    EXPECT_FALSE(interrupt_requested());
    std::raise(SIGTERM);
    EXPECT_TRUE(interrupt_requested());
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

TEST(Interrupt, IsAnsweredAtOnce) {
  testing::internal::CaptureStderr();
  {
    const InterruptGuard guard;
    set_interrupt_notice("first\n");
    set_interrupt_notice(interrupt_notice(40.2, true) + "\n");
    std::raise(SIGTERM);
    std::raise(SIGTERM);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "Stopping after this step (about 40 s), then saving a checkpoint. Ctrl-C again stops now.\n");
  EXPECT_EQ(interrupt_notice(0.2, true), "Stopping after this step, then saving a checkpoint. Ctrl-C again stops now.");
  EXPECT_EQ(interrupt_notice(0.2, false),
            "Stopping after this step; checkpoint.on_interrupt=false, so nothing is saved. Ctrl-C again stops now.");
}

// mpirun's SIGTERM when another rank has failed: the run ends, but nobody asked for it.
TEST(Interrupt, SaysNothingWhenTheLauncherEndsTheRanks) {
  EXPECT_FALSE(is_wish(SIGTERM, 12, 12));
  EXPECT_TRUE(is_wish(SIGTERM, 13, 12));
  EXPECT_TRUE(is_wish(SIGTERM, 0, 0));  // the kernel, and no launcher
  for (const int signal : {SIGINT, SIGHUP, SIGUSR1}) EXPECT_TRUE(is_wish(signal, 12, 12));
  for (const int signal : {SIGTERM, SIGUSR1}) {
    testing::internal::CaptureStderr();
    {
      const InterruptGuard guard(getpid());
      set_interrupt_notice("stopping\n");
      std::raise(signal);
      EXPECT_TRUE(interrupt_requested());
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), signal == SIGTERM ? "" : "stopping\n");
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
}  // namespace partita::internal
