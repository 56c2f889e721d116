// Weights as blocks see them, on one rank and on several.
#include "partita/shard/weight_store.h"

#include <ATen/ops/isnan.h>
#include <gtest/gtest.h>

#include "tests/support/ranks.h"

namespace partita {
namespace {

ParameterSpec matrix(const std::string& name, bool trainable) {
  return {.name = name, .shape = {3, 5}, .trainable = trainable};
}

bool poisoned(const at::Tensor& weight) { return at::isnan(weight).all().item<bool>(); }

// A frozen unit reaches below the first block with a backward: it is released where backward reads it last, so that
// whoever takes its slot next waits for that.
TEST(WeightStore, ReleasesAUnitBehindItsLastReader) {
  const auto self = test_world().group("self", {test_world().rank()});
  const auto data = test_world().group("data", test_ranks());
  const std::vector<std::vector<ParameterSpec>> blocks = {{matrix("table", false)},
                                                          {matrix("w1", false)},
                                                          {matrix("w2", false)},
                                                          {matrix("w3", false)},
                                                          {matrix("w4", false), matrix("t4", true)},
                                                          {matrix("head", true)}};
  const Zero zero = make_zero(3, *self, *data);
  const UnitPlan plan = plan_units(blocks, {.ranks = data->size(), .blocks_per_unit = 2});
  const int first = first_trainable_block(plan), head = 5;
  ASSERT_EQ(first, 4);
  CpuStream compute, side;
  WeightStore store(plan, zero, {false, false, false, false, true, true}, {.poison = true}, compute, side);
  for (size_t unit = 0; unit < plan.units.size(); ++unit) {
    store.slice(static_cast<int>(unit)).fill_(1);
    store.publish(static_cast<int>(unit));
  }
  for (int step = 0; step < 2; ++step) {
    for (int block = 0; block <= head; ++block) {
      for (const at::Tensor& weight : store.use(block, Pass::forward)) EXPECT_EQ(weight.sum().item<float>(), 15);
      store.release(block, Pass::forward);
    }
    for (int block = head; block >= first; --block) {
      const auto weights = store.use(block, Pass::backward);
      for (const at::Tensor& weight : weights) EXPECT_EQ(weight.sum().item<float>(), 15);
      store.release(block, Pass::backward);
      // w1 and w2 come into the slot of w3 and w4; nothing else into those of t4 and the head.
      if (block == first) {
        EXPECT_TRUE(poisoned(weights[0]));
        EXPECT_FALSE(poisoned(weights[1]));
      }
    }
  }
}

}  // namespace
}  // namespace partita
