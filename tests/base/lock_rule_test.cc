#include "partita/base/lock_rule.h"

#include <gtest/gtest.h>

#include <random>

namespace partita::internal {
namespace {

TEST(LockRule, WhatIsFreeIsTaken) {
  for (const KernelLock kernel : {KernelLock::free, KernelLock::unknown})
    EXPECT_EQ(decide_lock({.kernel = kernel}), LockDecision::take);
}

TEST(LockRule, AProcessOfThisMachineIsKnownByTheKernel) {
  EXPECT_EQ(decide_lock({.kernel = KernelLock::free, .holder = true, .same_machine = true}), LockDecision::take_over);
  const LockView held{.kernel = KernelLock::held, .holder = true, .same_machine = true, .alive = true};
  LockView later = held;
  later.watched = 3;
  EXPECT_EQ(decide_lock(held), LockDecision::wait) << "it may be about to end";
  EXPECT_EQ(decide_lock(later), LockDecision::refuse);
  later.stopping = true;
  EXPECT_EQ(decide_lock(later), LockDecision::wait) << "it saves";
  later.watched = 120;
  EXPECT_EQ(decide_lock(later), LockDecision::refuse);
  // Without locks by its number and the moment it was started.
  LockView process{.kernel = KernelLock::unknown, .holder = true, .same_machine = true};
  EXPECT_EQ(decide_lock(process), LockDecision::take_over);
  process.alive = true;
  process.watched = 3;
  EXPECT_EQ(decide_lock(process), LockDecision::refuse);
  process.stopping = true;
  EXPECT_EQ(decide_lock(process), LockDecision::wait) << "it saves";
  process.watched = 120;
  EXPECT_EQ(decide_lock(process), LockDecision::refuse);
  // A process that lives and has let go of the lock has no use for it.
  EXPECT_EQ(decide_lock({.kernel = KernelLock::free, .holder = true, .same_machine = true, .alive = true}),
            LockDecision::take_over);
}

// The kernel says that somebody has it: who that is can be unknown, because the text is not written yet or was torn.
TEST(LockRule, AHolderWithoutANameIsWaitedForBriefly) {
  EXPECT_EQ(decide_lock({.kernel = KernelLock::held, .watched = 0.1}), LockDecision::wait);
  EXPECT_EQ(decide_lock({.kernel = KernelLock::held, .watched = 0.5}), LockDecision::refuse);
}

TEST(LockRule, AProcessOfAnotherMachineIsKnownByItsHeartbeat) {
  for (const KernelLock kernel : {KernelLock::free, KernelLock::unknown}) {
    LockView v{.kernel = kernel, .holder = true, .age = 5, .watched = 5};
    EXPECT_EQ(decide_lock(v), LockDecision::wait);
    v.beats = true;
    EXPECT_EQ(decide_lock(v), LockDecision::refuse);
    v.stopping = true;
    EXPECT_EQ(decide_lock(v), LockDecision::wait) << "it saves";
    v.watched = 120;
    EXPECT_EQ(decide_lock(v), LockDecision::refuse);
    EXPECT_EQ(decide_lock({.kernel = kernel, .holder = true, .age = 60}), LockDecision::take_over);
    EXPECT_EQ(decide_lock({.kernel = kernel, .holder = true, .age = -7200, .watched = 60}), LockDecision::take_over)
        << "a clock that is wrong does not lock for ever";
  }
  // Its machine died, and the server of the file system keeps its lock for a while.
  EXPECT_EQ(decide_lock({.kernel = KernelLock::held, .holder = true, .watched = 50}), LockDecision::wait);
  EXPECT_EQ(decide_lock({.kernel = KernelLock::held, .holder = true, .watched = 60}), LockDecision::refuse);
  // A heartbeat says that it has not: there is nothing to wait for.
  EXPECT_EQ(decide_lock({.kernel = KernelLock::held, .holder = true, .watched = 0.5, .beats = true}),
            LockDecision::refuse);
}

TEST(LockRule, HoldsForEveryView) {
  std::mt19937 random(3);
  const auto coin = [&] { return random() % 2 == 0; };
  for (int i = 0; i < 100'000; ++i) {
    LockView v{.kernel = static_cast<KernelLock>(random() % 3),
               .holder = coin(),
               .same_machine = coin(),
               .alive = coin(),
               .stopping = coin(),
               .age = static_cast<double>(random() % 200) - 20,
               .watched = static_cast<double>(random() % 150),
               .beats = coin()};
    const LockDecision d = decide_lock(v);
    const bool taken = d == LockDecision::take || d == LockDecision::take_over;
    const bool lives = v.kernel == KernelLock::held || (v.holder && !v.same_machine && v.beats) ||
                       (v.kernel == KernelLock::unknown && v.holder && v.same_machine && v.alive);
    EXPECT_FALSE(lives && taken);
    EXPECT_FALSE(d == LockDecision::take && v.holder) << "a take-over is said";
    v.watched = 120;
    EXPECT_NE(decide_lock(v), LockDecision::wait) << "nobody waits for ever";
  }
}

}  // namespace
}  // namespace partita::internal
