#include "partita/engine/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Pass kF = Pass::forward, kB = Pass::backward;

std::vector<Action> all_of(const StepActions& step) {
  std::vector<Action> list;
  step.each([&](const Action& action) { list.push_back(action); });
  return list;
}

TEST(StepPlan, OneStageTakesMicroBatchesOneAfterTheOther) {
  EXPECT_THAT(all_of(one_stage(1)), ElementsAre(Action{kF, 0, 0}, Action{kB, 0, 0, true}));
  EXPECT_THAT(all_of(one_stage(3)), ElementsAre(Action{kF, 0, 0}, Action{kB, 0, 0}, Action{kF, 1, 0}, Action{kB, 1, 0},
                                                Action{kF, 2, 0}, Action{kB, 2, 0, true}));
  for (int micro_batches : {1, 2, 5}) EXPECT_EQ(activation_slots(all_of(one_stage(micro_batches)), micro_batches), 1);
  EXPECT_LE(one_stage(1 << 30).actions.size(), 4U) << "whatever the number of micro-batches";
}

TEST(StepPlan, SlotsAreThoseBetweenForwardAndBackward) {
  const std::vector<Action> actions = {{kF, 0, 0}, {kF, 1, 1}, {kB, 0, 0}, {kF, 2, 0}, {kB, 1, 1}, {kB, 2, 0, true}};
  EXPECT_EQ(activation_slots(actions, 3), 2);
}

TEST(StepPlan, NonsenseIsAnError) {
  const auto error = [](std::vector<Action> actions) {
    return error_message([&] { (void)activation_slots(actions, 2); });
  };
  EXPECT_THAT(error({{kF, 0, 0}, {kF, 1, 0}}),
              HasSubstr("forward of micro-batch 1 overwrites activation slot 0, which micro-batch 0 still needs"));
  EXPECT_THAT(error({{kF, 0, 0}, {kB, 1, 0}}), HasSubstr("backward of micro-batch 1 finds no forward"));
  EXPECT_THAT(error({{kF, 0, 0}, {kB, 0, 0}}), HasSubstr("micro-batch 1 has 0 forward and 0 backward actions"));
  EXPECT_THAT(error({{kF, 0, 0}, {kB, 0, 0, true}}), HasSubstr("micro-batch 0 is marked as the last backward"));
  EXPECT_THAT(error({{kF, 0, 0}, {kB, 0, 0}, {kF, 1, 0}, {kB, 1, 0}}), HasSubstr("micro-batch 1 is not marked"));
  EXPECT_THAT(error({{kF, 2, 0}}), HasSubstr("a step of 2 micro-batches has an action of micro-batch 2"));
  EXPECT_THAT(error({{kF, 0, -1}}), HasSubstr("activation slot -1"));
}

TEST(StepPlan, BackwardEndsAtTheFirstTrainableBlock) {
  const StepBlocks blocks{.count = 4, .first_trainable = 1, .backward_reads = {false, false, true, true}};
  const std::vector<BlockUse> uses = block_uses(one_stage(1).actions, blocks);
  ASSERT_EQ(uses.size(), 7U);
  EXPECT_EQ(uses[3].block, 3);
  EXPECT_EQ(uses[4].block, 3);
  EXPECT_EQ(uses[4].pass, kB);
  EXPECT_TRUE(uses[5].reads_weights);
  EXPECT_EQ(uses[6].block, 1);
  EXPECT_FALSE(uses[6].reads_weights);
}

TEST(StepPlan, MomentsAreTheFirstAndTheLastUse) {
  const StepBlocks blocks{.count = 3, .first_trainable = 1, .backward_reads = {false, true, true}};
  // F0: 0-2, F1: 3-5, B0: 6 (block 2), 7 (block 1), B1: 8, 9.
  const Moments moments(std::vector<Action>{{kF, 0, 0}, {kF, 1, 1}, {kB, 0, 0}, {kB, 1, 1, true}}, blocks);
  EXPECT_EQ(moments.first_forward(0, 2), 2);
  EXPECT_EQ(moments.first_forward(1, 0), 3);
  EXPECT_EQ(moments.last_use(0, 1), 7);
  EXPECT_EQ(moments.last_use(1, 1), 9);
  EXPECT_EQ(moments.last_use(1, 0), 3) << "no backward";
  EXPECT_EQ(moments.first_backward(2), 6);
  EXPECT_EQ(moments.first_backward(0), -1);
  EXPECT_EQ(moments.update(), 10);
}

}  // namespace
}  // namespace partita::internal
