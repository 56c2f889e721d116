#include "partita/shard/use_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "partita/shard/gradient_plan.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ParameterSpec matrix(std::string name) { return {.name = std::move(name), .shape = {3, 5}, .decay = true}; }

std::vector<BlockParameters> model(int layers, bool tied) {
  std::vector<BlockParameters> blocks = {{BlockKind::embedding, {matrix("table")}}};
  for (int l = 0; l < layers; ++l)
    blocks.push_back(
        {BlockKind::layer, {matrix(fmt::format("w{}", l)), {.name = fmt::format("b{}", l), .shape = {3}}}});
  blocks.push_back({BlockKind::head, {matrix(tied ? "table" : "head")}});
  return blocks;
}

// The uses of micro-batches one after the other; the backward of the embedding reads no weights.
std::vector<BlockUse> one_after_the_other(int blocks, int micro_batches) {
  std::vector<BlockUse> uses;
  for (int m = 0; m < micro_batches; ++m) {
    for (int b = 0; b < blocks; ++b) uses.push_back({b, Pass::forward});
    for (int b = blocks - 1; b >= 0; --b) uses.push_back({b, Pass::backward, b > 0});
  }
  return uses;
}

constexpr Sharding kZero1{.ranks = 4}, kZero2{.ranks = 4, .gradients = true},
    kZero3{.ranks = 4, .weights = true, .gradients = true};

TEST(UsePlan, Zero3GathersTheNextLayerAhead) {
  // Units: embedding 0, layers 1 to 3, head 4, vectors 5; slots: 0, 1, 2, 1, 0, 3.
  const UnitPlan units = plan_units(model(3, false), {.ranks = 4, .layers_per_unit = 1});
  const UsePlan plan = plan_uses(units, kZero3, one_after_the_other(5, 1));
  ASSERT_EQ(plan.turns.size(), 10U);
  EXPECT_THAT(plan.turns[0].prefetch, ElementsAre(1, 5));
  EXPECT_THAT(plan.turns[1].prefetch, ElementsAre(2));
  EXPECT_THAT(plan.turns[2].prefetch, ElementsAre(3));
  EXPECT_THAT(plan.turns[3].prefetch, ElementsAre(4));
  EXPECT_THAT(plan.turns[4].prefetch, ElementsAre(3, 5)) << "backward begins with layers that are still there";
  EXPECT_THAT(plan.turns[6].prefetch, ElementsAre(2));
  EXPECT_THAT(plan.turns[7].prefetch, ElementsAre(1));
  EXPECT_THAT(plan.turns[9].units, IsEmpty());
  // The first layer's slot gets the third, the embedding's the head; the second layer's stays for backward.
  EXPECT_THAT(plan.turns[0].evicted, ElementsAre(0));
  EXPECT_THAT(plan.turns[1].evicted, ElementsAre(1));
  EXPECT_THAT(plan.turns[2].evicted, IsEmpty());
  EXPECT_THAT(plan.turns[6].evicted, ElementsAre(3));
  EXPECT_THAT(plan.turns[8].released, ElementsAre(1, 5)) << "the end of the plan";
  EXPECT_THAT(plan.turns[8].evicted, IsEmpty());
}

TEST(UsePlan, TheEmbeddingOfTheNextMicroBatchIsGatheredUnderTheLastBackward) {
  const UnitPlan units = plan_units(model(1, false), {.ranks = 4, .layers_per_unit = 1});
  const UsePlan plan = plan_uses(units, kZero3, one_after_the_other(3, 2));
  EXPECT_THAT(plan.turns[4].units, ElementsAre(1, 3));
  EXPECT_THAT(plan.turns[4].prefetch, ElementsAre(0));
}

// Whatever the order of uses: what a turn needs is there, nothing is overwritten while it is needed, and a slot is free
// before another unit comes into it.
TEST(UsePlan, EveryUnitIsThereWhenItIsUsed) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const int layers = static_cast<int>(random() % 6);
    const UnitPlan units = plan_units(model(layers, random() % 2 == 0),
                                      {.ranks = 2, .layers_per_unit = 1 + static_cast<int>(random() % 3)});
    const Sharding sharding{.ranks = 2, .weights = random() % 4 != 0, .gradients = true};
    std::vector<BlockUse> uses;
    for (int i = 0; i < 30; ++i)
      uses.push_back({static_cast<int>(random() % static_cast<unsigned>(layers + 2)),
                      random() % 2 == 0 ? Pass::forward : Pass::backward, random() % 5 != 0});
    const SlotPlan slots = weight_slots(units, sharding);
    const UsePlan plan = plan_uses(units, sharding, uses);
    std::vector<int> held(slots.slot_count.size(), -1);
    std::vector<bool> free(slots.slot_count.size(), true);
    const auto fill = [&](int unit) {
      const auto slot = static_cast<size_t>(slots.slot_of_unit[static_cast<size_t>(unit)]);
      if (held[slot] == unit) return;
      EXPECT_TRUE(free[slot]) << "round " << round << ", unit " << unit;
      held[slot] = unit;
    };
    for (const UsePlan::Turn& turn : plan.turns) {
      for (const int unit : turn.units) {
        fill(unit);
        free[static_cast<size_t>(slots.slot_of_unit[static_cast<size_t>(unit)])] = false;
      }
      for (const int unit : turn.prefetch) fill(unit);
      for (const int unit : turn.units)
        EXPECT_EQ(held[static_cast<size_t>(slots.slot_of_unit[static_cast<size_t>(unit)])], unit) << "round " << round;
      for (const int unit : turn.evicted) EXPECT_THAT(turn.released, testing::Contains(unit));
      for (const int unit : turn.released)
        free[static_cast<size_t>(slots.slot_of_unit[static_cast<size_t>(unit)])] = true;
    }
    EXPECT_THAT(free, testing::Each(true)) << "an optimizer may rewrite everything at the end";
  }
}

// ZeRO-3: a layer's unit is gathered again in each pass, but for the two that the pass before left in their slots.
TEST(UsePlan, CountsGathersAndReductions) {
  for (int layers : {0, 1, 2, 3, 5, 8})
    for (bool tied : {true, false})
      for (int micro_batches : {1, 2, 5}) {
        const UnitPlan plan = plan_units(model(layers, tied), {.ranks = 4, .layers_per_unit = 1});
        const auto units = static_cast<int64_t>(plan.units.size());
        const auto gathers = [&](const Sharding& sharding) {
          return count_gathers(plan, sharding,
                               plan_uses(plan, sharding, one_after_the_other(layers + 2, micro_batches)));
        };
        const auto reductions = [&](const Sharding& sharding) {
          return count_reductions(plan, plan_gradients(plan, sharding, micro_batches), micro_batches);
        };
        EXPECT_EQ(gathers({}), 0);
        EXPECT_EQ(gathers(kZero1), units);
        const int64_t again = std::max(0, layers - 2), ends = tied ? 1 : 2 * micro_batches;
        EXPECT_EQ(gathers(kZero3), layers + (2 * micro_batches - 1) * again + ends + (layers > 0 ? 1 : 0))
            << layers << " layers, tied " << tied << ", " << micro_batches << " micro-batches";
        EXPECT_EQ(reductions({}), 0);
        EXPECT_EQ(reductions(kZero1), units);
        EXPECT_EQ(reductions(kZero2), units * micro_batches);
      }
}

// The turns of a head that is taken many times are those of the whole list.
TEST(UsePlan, AHeadStandsForAllItsTimes) {
  for (const Sharding& sharding : {kZero1, kZero3})
    for (int layers : {0, 1, 2, 5})
      for (int micro_batches : {2, 3, 6}) {
        const UnitPlan units = plan_units(model(layers, false), {.ranks = 4, .layers_per_unit = 2});
        const int blocks = layers + 2;
        const UsePlan whole = plan_uses(units, sharding, one_after_the_other(blocks, micro_batches));
        const auto head = static_cast<size_t>(2 * blocks);
        const UsePlan plan = plan_uses(units, sharding, one_after_the_other(blocks, 2), head, micro_batches - 1);
        for (size_t i = 0; i < whole.turns.size(); ++i) {
          const bool last = i >= head * static_cast<size_t>(micro_batches - 1);
          const UsePlan::Turn& turn = plan.turns[i % head + (last ? head : 0)];
          EXPECT_EQ(turn.units, whole.turns[i].units);
          EXPECT_EQ(turn.prefetch, whole.turns[i].prefetch);
          EXPECT_EQ(turn.released, whole.turns[i].released);
          EXPECT_EQ(turn.evicted, whole.turns[i].evicted);
        }
        EXPECT_EQ(count_gathers(units, sharding, plan), count_gathers(units, sharding, whole));
      }
}

}  // namespace
}  // namespace partita::internal
