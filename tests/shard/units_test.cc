#include "partita/shard/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "partita/shard/slots.h"
#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Blocks = std::vector<BlockParameters>;

constexpr Sharding kShared{.weights = true};
bool every_unit(const Unit&) { return true; }

ParameterSpec matrix(std::string name, int64_t rows, int64_t columns) {
  return {.name = std::move(name), .shape = {rows, columns}, .decay = true};
}
ParameterSpec bias(std::string name, int64_t count) { return {.name = std::move(name), .shape = {count}}; }

Blocks model(int layers, bool tied) {
  Blocks blocks = {{BlockKind::embedding, {matrix("table", 7, 3)}}};
  for (int l = 0; l < layers; ++l) {
    const std::string prefix = "layer" + std::to_string(l);
    blocks.push_back({BlockKind::layer, {matrix(prefix + ".w", 3, 3), bias(prefix + ".b", 3)}});
  }
  blocks.push_back({BlockKind::head, {matrix(tied ? "table" : "head", 7, 3), bias("norm", 3)}});
  return blocks;
}

std::vector<std::string> names(const UnitPlan& plan) {
  std::vector<std::string> out;
  for (const Unit& unit : plan.units) out.push_back(unit.name);
  return out;
}

TEST(Units, ATiedEmbeddingAndHeadAreOneUnit) {
  const UnitPlan plan = plan_units(model(4, true), {.ranks = 2, .layers_per_unit = 2});
  EXPECT_THAT(names(plan), ElementsAre("embedding_and_head", "layers.0-1", "layers.2-3", "vectors"));
  EXPECT_THAT(plan.units_of_block[0], ElementsAre(0));
  EXPECT_THAT(plan.units_of_block[1], ElementsAre(1, 3));
  EXPECT_THAT(plan.units_of_block[4], ElementsAre(2, 3));
  EXPECT_THAT(plan.units_of_block[5], ElementsAre(0, 3));
  EXPECT_THAT(plan.first_block, ElementsAre(0, 1, 3, 1));
  EXPECT_THAT(plan.last_block, ElementsAre(5, 2, 4, 5));
}

TEST(Units, EmbeddingAndHeadShareASlotWhereSlotsAreShared) {
  const UnitPlan plan = plan_units(model(5, false), {.ranks = 3, .layers_per_unit = 1});
  EXPECT_THAT(names(plan), ElementsAre("embedding", "layers.0-0", "layers.1-1", "layers.2-2", "layers.3-3",
                                       "layers.4-4", "head", "vectors"));
  const SlotPlan shared = weight_slots(plan, kShared);
  const SlotPlan all = weight_slots(plan, {});
  EXPECT_THAT(shared.slot_of_unit, ElementsAre(0, 1, 2, 1, 2, 1, 0, 3));
  EXPECT_EQ(shared.slot_count.size(), 4U);
  EXPECT_TRUE(shared.shared(0));
  EXPECT_FALSE(shared.shared(7));
  EXPECT_THAT(all.slot_of_unit, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(Units, EveryParameterOfEveryBlockIsPlacedOnce) {
  for (int layers : {0, 1, 2, 3, 7})
    for (bool tied : {true, false})
      for (int step : {0, 1, 2, 5}) {
        const Blocks blocks = model(layers, tied);
        const UnitPlan plan = plan_units(blocks, {.ranks = 4, .layers_per_unit = step});
        size_t placed = 0;
        for (const Unit& unit : plan.units) placed += unit.layout.parameters.size();
        EXPECT_EQ(placed, 1U + 2U * static_cast<size_t>(layers) + (tied ? 1U : 2U));
        for (size_t b = 0; b < blocks.size(); ++b) {
          ASSERT_EQ(plan.blocks[b].size(), blocks[b].parameters.size());
          for (size_t p = 0; p < blocks[b].parameters.size(); ++p) {
            const Placement place = plan.blocks[b][p];
            EXPECT_EQ(plan.units[static_cast<size_t>(place.unit)]
                          .layout.parameters[static_cast<size_t>(place.parameter)]
                          .name,
                      blocks[b].parameters[p].name);
          }
        }
      }
}

ParameterSpec frozen(ParameterSpec p) {
  p.trainable = false;
  return p;
}

// A layer whose matrices are partly frozen uses two units at once: they never share a slot.
TEST(Units, FrozenParametersLieApart) {
  Blocks blocks = model(3, false);
  blocks[0].parameters[0].trainable = false;
  blocks[1].parameters[0].trainable = blocks[1].parameters[1].trainable = false;
  blocks[2].parameters.push_back(frozen(matrix("layer1.u", 3, 3)));
  blocks[3].parameters.push_back({.name = "layer2.a", .shape = {2, 3}, .decay = true, .adapter = true});
  const UnitPlan plan = plan_units(blocks, {.ranks = 2, .layers_per_unit = 1});
  EXPECT_THAT(names(plan), ElementsAre("embedding.frozen", "layers.0-0.frozen", "layers.1-1", "layers.1-1.frozen",
                                       "layers.2-2", "head", "vectors", "vectors.frozen"));
  EXPECT_THAT(weight_slots(plan, kShared).slot_of_unit, ElementsAre(0, 1, 2, 1, 2, 3, 4, 5));
  EXPECT_THAT(plan_slots(plan, every_unit, SlotContent::gradients).slot_of_unit,
              ElementsAre(-1, -1, 0, -1, 1, 2, 3, -1));
  EXPECT_EQ(first_trainable_block(plan), 2);
  for (const Unit& unit : plan.units)
    for (const ParameterSpec& p : unit.layout.parameters) EXPECT_EQ(p.trainable, unit.trainable) << p.name;
  EXPECT_EQ(plan.units[6].layout.parameters.front().name, "layer2.a");  // a small matrix, with the vectors
}

// Two layers have two buffers anyway, and a table alone has one; a third layer saves the memory of one.
TEST(Units, WeightsLeaveWhereThatSavesMemory) {
  const auto away = [](int layers, bool tied, double share) {
    UnitPlan plan = plan_units(model(layers, tied), {.layers_per_unit = 1});
    place_states(plan, {.host = 1}, /*one_reduction=*/true);
    place_weights(plan, {.host = share});
    std::vector<std::string> names;
    for (const Unit& unit : plan.units)
      if (unit.weights != StatesPlace::device) names.push_back(unit.name);
    return names;
  };
  EXPECT_THAT(away(2, true, 1), ElementsAre());
  EXPECT_THAT(away(2, false, 1), ElementsAre("embedding", "head"));
  EXPECT_THAT(away(3, true, 1), ElementsAre("layers.0-0", "layers.1-1", "layers.2-2"));
  EXPECT_THAT(away(9, true, 0.1), ElementsAre());
  EXPECT_THAT(away(9, true, 0.2), ElementsAre("layers.6-6", "layers.7-7", "layers.8-8"));
}

// Any mixture: the units of a block have different slots, and every trained parameter a gradient.
TEST(Units, UnitsOfABlockNeverShareASlot) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Blocks blocks = model(static_cast<int>(random() % 7), random() % 2 == 0);
    for (auto& block : blocks) {
      block.parameters.push_back(matrix("extra" + std::to_string(&block - blocks.data()), 2, 2));
      for (ParameterSpec& p : block.parameters) p.trainable = random() % 2 == 0;
    }
    const ParameterSpec& table = blocks.front().parameters[0];
    ParameterSpec& head = blocks.back().parameters[0];
    if (table.name == head.name) head.trainable = table.trainable;
    const UnitPlan plan = plan_units(blocks, {.ranks = 3, .layers_per_unit = 1 + static_cast<int>(random() % 3)});
    for (SlotContent what : {SlotContent::weights, SlotContent::gradients}) {
      const SlotPlan slots = plan_slots(plan, every_unit, what);
      for (const auto& units : plan.units_of_block) {
        std::set<int> used;
        for (int unit : units) {
          const int slot = slots.slot_of_unit[static_cast<size_t>(unit)];
          if (slot < 0) {
            EXPECT_FALSE(plan.units[static_cast<size_t>(unit)].trainable);
            continue;
          }
          EXPECT_TRUE(used.insert(slot).second) << "round " << round;
          EXPECT_LE(plan.units[static_cast<size_t>(unit)].layout.count, slots.slot_count[static_cast<size_t>(slot)]);
        }
      }
    }
  }
}

TEST(Units, AutomaticSizeFillsCollectivesButLeavesFourUnits) {
  EXPECT_EQ(automatic_layers_per_unit(200'000'000, 32), 1);  // 7B: a layer is enough
  EXPECT_EQ(automatic_layers_per_unit(30'720'000, 48), 1);   // GPT-2 XL
  EXPECT_EQ(automatic_layers_per_unit(7'077'888, 12), 3);    // GPT-2 small: 5 would fill it, 3 leave four units
  EXPECT_EQ(automatic_layers_per_unit(7'077'888, 24), 5);
  EXPECT_EQ(automatic_layers_per_unit(100, 3), 1);
  EXPECT_EQ(automatic_layers_per_unit(0, 0), 1);
}

// The last units leave, as many elements as asked for but for half a unit; on disk are the last of them.
TEST(Units, StatesLeaveFromTheEnd) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    UnitPlan plan = plan_units(model(1 + static_cast<int>(random() % 9), random() % 2 == 0),
                               {.ranks = 1 + static_cast<int>(random() % 3), .layers_per_unit = 1});
    const double host = static_cast<double>(random() % 11) / 10;
    const double disk = (1 - host) * static_cast<double>(random() % 3) / 2;
    place_states(plan, {.host = host, .disk = disk}, random() % 2 == 0);
    double all = 0, on_disk = 0, away = 0, largest = 0;
    StatesPlace before = StatesPlace::device;
    for (const Unit& unit : plan.units) {
      const auto count = static_cast<double>(unit.layout.slice_count());
      EXPECT_TRUE(unit.trainable || unit.states == StatesPlace::device);
      if (!unit.trainable) continue;
      all += count;
      largest = std::max(largest, count);
      on_disk += unit.states == StatesPlace::disk ? count : 0;
      away += unit.on_host() ? count : 0;
      if (host + disk < 1 && unit.pool == BufferPool::persistent) {
        EXPECT_EQ(unit.states, StatesPlace::device) << "vectors";
        continue;
      }
      EXPECT_LE(before, unit.states) << "in forward order: device, host, disk";
      before = unit.states;
    }
    if (host + disk >= 1)
      EXPECT_EQ(away, all);
    else
      EXPECT_NEAR(away, (host + disk) * all, largest + 0.1 * all) << host << ", " << disk;
    EXPECT_NEAR(on_disk, disk * all, largest + 0.1 * all) << host << ", " << disk;
    EXPECT_EQ(away > 0, host + disk > 0) << "at least one unit";
    EXPECT_EQ(on_disk > 0, disk > 0);
  }
}

TEST(Units, TwoShapesOfOneNameAreAnError) {
  Blocks blocks = model(1, true);
  blocks[2].parameters[0].shape = {8, 3};
  EXPECT_THAT(error_message([&] { (void)plan_units(blocks, {}); }),
              HasSubstr("table has shape [7, 3] in one block and [8, 3]"));
  EXPECT_THAT(error_message([&] { (void)plan_units(Blocks(), {}); }), HasSubstr("has no blocks"));
}

TEST(Units, GradientsOfAllButLayersStayFp32) {
  const UnitPlan plan = plan_units(model(2, true), {.ranks = 2, .weight = DType::bf16, .matrix_gradient = DType::bf16});
  for (const Unit& unit : plan.units) {
    EXPECT_EQ(unit.weight, DType::bf16);
    EXPECT_EQ(unit.gradient, unit.pool == BufferPool::layers ? DType::bf16 : DType::fp32) << unit.name;
  }
}

// A stage of a pipeline has neither an embedding nor a head.
TEST(Units, LayersAloneAreAModel) {
  Blocks blocks = model(3, false);
  blocks.erase(blocks.begin());
  blocks.pop_back();
  const UnitPlan plan = plan_units(blocks, {.ranks = 2, .layers_per_unit = 2});
  EXPECT_THAT(names(plan), ElementsAre("layers.0-1", "layers.2-2", "vectors"));
  EXPECT_THAT(plan.units_of_block[0], ElementsAre(0, 2));
  EXPECT_THAT(plan.units_of_block[2], ElementsAre(1, 2));
}

}  // namespace
}  // namespace partita::internal
