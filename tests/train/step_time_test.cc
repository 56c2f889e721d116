#include "partita/train/step_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using enum StepResource;

// Loads and rates of any proportions; about a third of the amounts are zero.
struct Case {
  StepLoad load;
  StepRates rates;
};

Case random_case(std::mt19937& random) {
  const auto amount = [&] {
    return random() % 3 == 0 ? 0.0 : std::exp2(std::uniform_real_distribution(-4.0, 4.0)(random));
  };
  const auto rate = [&] { return std::exp2(std::uniform_real_distribution(-3.0, 3.0)(random)); };
  Case c;
  StepLoad& l = c.load;
  l.micro_batches = 1 + static_cast<int64_t>(random() % 4);
  l.bubble = random() % 2 == 0 ? 0 : 0.25;
  // Forward passes move activations down, backward passes up, as the engine does.
  l.forward = {.flops = amount(), .device_bytes = amount(), .down = amount(), .moved = amount(), .exchanged = amount()};
  l.backward = {.flops = amount(), .device_bytes = amount(), .up = amount(), .moved = amount(), .exchanged = amount()};
  l.last_backward = {.down = amount(), .moved = amount()};
  l.update_bytes = amount();
  l.moved_update = amount();
  const auto blocks = 1 + static_cast<int>(random() % 6);
  l.blocks.assign(static_cast<size_t>(blocks), 1.0 / blocks);
  for (int u = static_cast<int>(random() % 5); u > 0; --u)
    l.updates.push_back({.first_block = static_cast<int>(random() % static_cast<unsigned>(blocks)),
                         .host_bytes = amount(),
                         .disk_bytes = amount(),
                         .up = amount()});
  for (double& r : c.rates.of) r = rate();
  return c;
}

StepRates unlimited() {
  StepRates rates;
  rates.of.fill(std::numeric_limits<double>::infinity());
  return rates;
}

// No resource does more than it can, and nothing takes longer than one after the other.
TEST(StepTime, IsBetweenTheLongestAndTheSum) {
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const auto [load, rates] = random_case(random);
    const double found = step_time(load, rates).seconds;
    const auto alone = [&, &l = load, &r = rates](StepResource resource) { return l.total(resource) / r[resource]; };
    double sum = 0;
    for (const StepResource r : {compute, device_memory, link, host_memory, disk, network}) sum += alone(r);
    const double least = std::max({alone(compute) + alone(device_memory), load.down() / rates[link],
                                   load.up() / rates[link], alone(host_memory), alone(disk), alone(network)});
    EXPECT_GE(found, least * (1 - 1e-12)) << i;
    EXPECT_LE(found, sum * (1 + load.bubble) * (1 + 1e-12)) << i;
  }
}

TEST(StepTime, GrowsWithLoadsAndShrinksWithRates) {
  std::mt19937 random(8);
  for (int i = 0; i < 500; ++i) {
    const auto [load, rates] = random_case(random);
    const double now = step_time(load, rates).seconds;
    StepRates twice = rates;
    for (double& r : twice.of) r *= 2;
    EXPECT_NEAR(step_time(load, twice).seconds, now / 2, 1e-12 * now);
    for (size_t r = 0; r < kStepResources; ++r) {
      StepRates faster = rates;
      faster.of[r] *= 1.5;
      EXPECT_LE(step_time(load, faster).seconds, now * (1 + 1e-12));
    }
    StepLoad more = load;
    ++more.micro_batches;
    EXPECT_GE(step_time(more, rates).seconds, now);
    for (double* amount : {&more.forward.flops, &more.last_backward.down, &more.update_bytes, &more.moved_update})
      *amount += 1;
    more.updates.push_back({.host_bytes = 1, .disk_bytes = 1, .up = 1});
    EXPECT_GT(step_time(more, rates).seconds, now);
    EXPECT_EQ(step_time(load, unlimited()).seconds, 0);
  }
}

// What the step is bound by is the resource whose speed would shorten it most.
TEST(StepTime, IsBoundByWhatShortensItMost) {
  std::mt19937 random(9);
  for (int i = 0; i < 500; ++i) {
    const auto [load, rates] = random_case(random);
    const StepTime time = step_time(load, rates);
    for (size_t r = 0; r < kStepResources; ++r) {
      StepRates without = rates;
      without.of[r] = std::numeric_limits<double>::infinity();
      EXPECT_GE(step_time(load, without).seconds, time.unbound_seconds);
      if (static_cast<StepResource>(r) == time.bound) {
        EXPECT_EQ(step_time(load, without).seconds, time.unbound_seconds);
      }
    }
  }
}

StepRates ones() {
  StepRates rates;
  rates.of.fill(1);
  return rates;
}

// Four blocks, a forward pass of 4 s and a backward pass of 8 s.
StepLoad plain() { return {.forward = {.flops = 4}, .backward = {.flops = 8}, .blocks = {0.25, 0.25, 0.25, 0.25}}; }

TEST(StepTime, AddsPassesAndUpdateOfTheDevice) {
  StepLoad load = plain();
  load.update_bytes = 3;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 15);
  load.micro_batches = 3;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 39);
  load.bubble = 0.25;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 39 + 9);
}

// Forward waits for the unit of a block, not for later ones.
TEST(StepTime, UpdatesOfTheHostAreUnderForward) {
  StepLoad load = plain();
  load.updates = {{.first_block = 3, .host_bytes = 3}};
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 12) << "ready when block 3 begins";
  load.updates[0].host_bytes = 5;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 14);
  load.updates[0].first_block = 0;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 17) << "nothing runs meanwhile";
  load.updates = {{.first_block = 1, .host_bytes = 1}, {.first_block = 2, .host_bytes = 2, .up = 1}};
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 14) << "1, then at 3 and 4 s; two blocks of 1 s after that";
  load.updates = {{.first_block = 3, .host_bytes = 1, .disk_bytes = 6}, {.first_block = 3, .host_bytes = 1}};
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 7 + 1 + 8) << "the second waits for the first one's file";
}

TEST(StepTime, CopiesAreUnderTheirPass) {
  StepLoad load = plain();
  load.forward.down = 3;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 12);
  load.forward.down = 6;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 14);
  load = plain();
  load.last_backward.moved = 9;
  load.micro_batches = 2;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 12 + 13) << "of the last micro-batch alone";
  load.backward.exchanged = 1;
  EXPECT_DOUBLE_EQ(step_time(load, ones()).seconds, 13 + 14) << "nothing runs under an exchange";
}

TEST(StepTime, RatesAreMoreThanZero) {
  StepRates rates = ones();
  rates[disk] = 0;
  EXPECT_THAT(error_message([&] { (void)step_time(plain(), rates); }), testing::HasSubstr("a rate of 0"));
  rates[disk] = std::nan("");
  EXPECT_THAT(error_message([&] { (void)step_time(plain(), rates); }), testing::HasSubstr("expected more than 0"));
}

}  // namespace
}  // namespace partita::internal
