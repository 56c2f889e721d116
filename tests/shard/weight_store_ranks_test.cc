// Weights as seen by blocks, on one rank and on several.
#include "partita/shard/weight_store.h"

#include <ATen/ops/isnan.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"
#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

ParameterSpec matrix(const std::string& name, bool trainable) {
  return {.name = name, .shape = {3, 5}, .trainable = trainable};
}

bool poisoned(const at::Tensor& weight) { return at::isnan(weight).all().item<bool>(); }

// A frozen unit reaches below the first block with a backward: it is released where backward reads it last, so that
// whoever takes its slot next waits for that.
TEST(WeightStore, ReleasesAUnitBehindItsLastReader) {
  const auto self = test_world().self();
  const auto data = test_world().group("data", test_ranks());
  const std::vector<BlockParameters> blocks = {{BlockKind::embedding, {matrix("table", false)}},
                                               {BlockKind::layer, {matrix("w1", false)}},
                                               {BlockKind::layer, {matrix("w2", false)}},
                                               {BlockKind::layer, {matrix("w3", false)}},
                                               {BlockKind::layer, {matrix("w4", false), matrix("t4", true)}},
                                               {BlockKind::head, {matrix("head", true)}}};
  const Zero zero = make_zero(3, *self, *data);
  const UnitPlan plan = plan_units(blocks, {.ranks = data->size(), .layers_per_unit = 2});
  const int first = first_trainable_block(plan), head = 5;
  ASSERT_EQ(first, 4);
  std::vector<BlockUse> step;
  for (int block = 0; block <= head; ++block) step.push_back({block, Pass::forward});
  for (int block = head; block >= first; --block) step.push_back({block, Pass::backward});
  // Two micro-batches, so that the first layers come again.
  std::vector<BlockUse> uses = step;
  uses.insert(uses.end(), step.begin(), step.end());
  const UsePlan use_plan = plan_uses(plan, zero.sharding, uses);
  CpuStream compute, communication;
  WeightStore store(plan, zero, {.poison = true}, compute, communication);
  for (size_t unit = 0; unit < plan.units.size(); ++unit) {
    store.slice(static_cast<int>(unit)).fill_(1);
    store.publish(static_cast<int>(unit));
  }
  store.begin(use_plan);
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto weights = store.use(uses[i].block, uses[i].pass);
    for (const at::Tensor& weight : weights) EXPECT_EQ(weight.sum().item<float>(), 15);
    store.release();
    if (uses[i].block != first || uses[i].pass != Pass::backward) continue;
    // w1 and w2 come into the slot of w3 and w4, if there is another micro-batch; nothing else into that of t4.
    EXPECT_EQ(poisoned(weights[0]), i + 1 < uses.size());
    EXPECT_FALSE(poisoned(weights[1]));
  }
}

TEST(WeightStore, UsesComeInTheOrderOfThePlan) {
  const auto self = test_world().self();
  const std::vector<BlockParameters> blocks = {{BlockKind::layer, {matrix("a", true)}},
                                               {BlockKind::layer, {matrix("b", true)}}};
  const UnitPlan plan = plan_units(blocks, {});
  const Zero zero = make_zero(0, *self, *self);
  const UsePlan uses = plan_uses(plan, zero.sharding, {{0, Pass::forward}, {1, Pass::forward}});
  CpuStream compute, communication;
  WeightStore store(plan, zero, {}, compute, communication);
  EXPECT_THAT(error_message([&] { (void)store.use(0, Pass::forward); }), testing::HasSubstr("not use 0 of the plan"));
  store.begin(uses);
  EXPECT_THAT(error_message([&] { (void)store.use(1, Pass::forward); }), testing::HasSubstr("not use 0 of the plan"));
  EXPECT_EQ(store.use(0, Pass::forward).size(), 1U);
  store.release();
  EXPECT_THAT(error_message([&] { (void)store.use(1, Pass::backward); }), testing::HasSubstr("not use 1 of the plan"));
}

}  // namespace
}  // namespace partita::internal
