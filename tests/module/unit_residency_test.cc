#include "partita/module/unit_residency.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

namespace partita::internal {
namespace {

using Action = UnitResidency::Action;
using testing::ElementsAre;
using testing::IsEmpty;

Action gather(int unit) { return {Action::Kind::gather, unit}; }
Action evict(int unit) { return {Action::Kind::evict, unit}; }

std::vector<Action> step(UnitResidency& residency, const std::vector<int>& uses) {
  std::vector<Action> all;
  for (const int unit : uses) {
    const std::vector<int> units{unit};
    for (const Action& a : residency.use(units)) all.push_back(a);
    for (const Action& a : residency.release(units)) all.push_back(a);
  }
  residency.end_step();
  return all;
}

TEST(UnitResidency, GathersOneAheadInTheOrderOfTheLastStep) {
  UnitResidency residency(3);
  EXPECT_THAT(step(residency, {0, 1, 2, 1, 0}), ElementsAre(gather(0), gather(1), gather(2)));
  EXPECT_THAT(step(residency, {3, 4}), ElementsAre(evict(2), gather(3), evict(1), gather(4)));
  (void)residency.clear();
  // Expected: 3, 4.
  const std::vector<int> three{3};
  EXPECT_THAT(residency.use(three), ElementsAre(gather(3), gather(4)));
  EXPECT_THAT(residency.release(three), IsEmpty());
}

TEST(UnitResidency, AnOperationMayUseMoreThanAreHeld) {
  UnitResidency residency(2);
  const std::vector<int> all{0, 1, 2, 3};
  EXPECT_THAT(residency.use(all), ElementsAre(gather(0), gather(1), gather(2), gather(3)));
  EXPECT_THAT(residency.release(all), ElementsAre(evict(0), evict(1)));
}

// Random programs: what is used is there, no more than that and the limit, and after a first step of the same order
// nothing but the first unit is gathered for an operation that needs it at once.
TEST(UnitResidency, WhatIsUsedIsThere) {
  std::mt19937 random(3);
  for (int run = 0; run < 200; ++run) {
    const int units = 1 + static_cast<int>(random() % 9), most = 2 + static_cast<int>(random() % 3);
    UnitResidency residency(most);
    std::set<int> there;
    const auto act = [&](const std::vector<Action>& actions) {
      for (const Action& a : actions) {
        if (a.kind == Action::Kind::gather)
          EXPECT_TRUE(there.insert(a.unit).second);
        else
          EXPECT_EQ(there.erase(a.unit), 1U);
      }
    };
    for (int s = 0; s < 3; ++s) {
      for (int i = 0; i < 30; ++i) {
        std::set<int> used;
        for (int n = 1 + static_cast<int>(random() % 2); n > 0; --n)
          used.insert(static_cast<int>(random() % static_cast<unsigned>(units)));
        const std::vector<int> list(used.begin(), used.end());
        act(residency.use(list));
        for (const int u : list) EXPECT_TRUE(there.contains(u) && residency.holds(u));
        EXPECT_LE(there.size(), std::max<size_t>(static_cast<size_t>(most), list.size()));
        act(residency.release(list));
        EXPECT_LE(there.size(), static_cast<size_t>(most));
      }
      residency.end_step();
    }
    act(residency.clear());
    EXPECT_TRUE(there.empty());
  }
}

// A model of many units, forward and backward: from the second step on each unit but the first is on its way when it is
// used.
TEST(UnitResidency, AKnownOrderIsGatheredAhead) {
  UnitResidency residency(3);
  std::vector<int> order;
  for (int u = 0; u < 8; ++u) order.push_back(u);
  for (int u = 7; u >= 0; --u) order.push_back(u);
  (void)step(residency, order);
  for (int s = 0; s < 2; ++s) {
    (void)residency.clear();
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(residency.holds(order[i]), i > 0) << i;
      const std::vector<int> units{order[i]};
      (void)residency.use(units);
      (void)residency.release(units);
    }
    residency.end_step();
  }
}

}  // namespace
}  // namespace partita::internal
