#include "partita/engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace partita::internal {
namespace {

using testing::ElementsAre;

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// What is in use at the moment at which most is.
int64_t most_at_once(const std::vector<Lifetime>& buffers) {
  int64_t most = 0;
  for (const Lifetime& at : buffers) {
    int64_t sum = 0;
    for (const Lifetime& b : buffers)
      if (b.first <= at.first && at.first <= b.last) sum += b.bytes;
    most = std::max(most, sum);
  }
  return most;
}

void expect_valid(const MemoryPlan& plan, const std::vector<Lifetime>& buffers) {
  ASSERT_EQ(plan.offset.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(plan.offset[i] % kMemoryAlignment, 0);
    EXPECT_LE(plan.offset[i] + buffers[i].bytes, plan.bytes);
    for (size_t j = 0; j < i; ++j)
      if (buffers[i].bytes > 0 && buffers[j].bytes > 0 && meet(buffers[i], buffers[j])) {
        EXPECT_TRUE(plan.offset[i] + buffers[i].bytes <= plan.offset[j] ||
                    plan.offset[j] + buffers[j].bytes <= plan.offset[i])
            << i << " and " << j << " overlap";
      }
  }
}

TEST(MemoryPlan, WhatFollowsLiesInThePlaceOfWhatWasBefore) {
  const MemoryPlan plan = plan_memory(std::vector<Lifetime>{{800, 0, 5}, {300, 6, 9}, {1, 5, 6}});
  EXPECT_THAT(plan.offset, ElementsAre(0, 0, 1024));
  EXPECT_EQ(plan.bytes, 1280);
}

TEST(MemoryPlan, NothingTakesNothing) {
  EXPECT_EQ(plan_memory({}).bytes, 0);
  EXPECT_EQ(plan_memory(std::vector<Lifetime>{{0, 0, 3}, {0, 1, 2}}).bytes, 0);
}

TEST(MemoryPlan, RandomLifetimesNeverMeetInMemory) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers;
    for (unsigned i = random() % 40; i > 0; --i) {
      const int first = static_cast<int>(random() % 20);
      buffers.push_back({.bytes = static_cast<int64_t>(random() % 5 == 0 ? 0 : random() % 100'000),
                         .first = first,
                         .last = first + static_cast<int>(random() % 20)});
    }
    const MemoryPlan plan = plan_memory(buffers);
    expect_valid(plan, buffers);
    int64_t sum = 0;
    for (const Lifetime& b : buffers) sum += (b.bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
    EXPECT_LE(plan.bytes, sum);
    EXPECT_GE(plan.bytes, most_at_once(buffers));
  }
}

// A step: activations of layers that end in turn, gradients that begin in turn and stay. No more than what is in use at
// once, but for alignment, whichever of the two is larger.
TEST(MemoryPlan, AStepTakesWhatItUsesAtOnce) {
  for (const auto& [activation, gradient] :
       {std::pair<int64_t, int64_t>{807'500, 404'750}, {404'750, 404'750}, {134'300, 404'750}, {1'000'000, 999'000}}) {
    constexpr int kLayers = 32;
    std::vector<Lifetime> buffers;
    for (int layer = 0; layer < kLayers; ++layer) {
      buffers.push_back({activation, layer, 2 * kLayers - 1 - layer});
      buffers.push_back({gradient, 2 * kLayers - 1 - layer, 2 * kLayers});
    }
    const MemoryPlan plan = plan_memory(buffers);
    expect_valid(plan, buffers);
    EXPECT_LE(plan.bytes, most_at_once(buffers) + 64 * kMemoryAlignment) << activation << ", " << gradient;
  }
}

}  // namespace
}  // namespace partita::internal
