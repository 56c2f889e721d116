#include "partita/pipeline/open_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "partita/base/error.h"
#include "partita/pipeline/check.h"
#include "partita/pipeline/messages.h"
#include "partita/pipeline/slots.h"
#include "partita/pipeline/timeline.h"
#include "tests/pipeline/cases.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;

ActionLists capped(const PipelineShape& shape, int most) {
  ActionLists lists = pipeline_actions(shape);
  for (ActionList& list : lists) list = cap_open_weights(list, most);
  return lists;
}

std::vector<int> open(const ActionLists& lists) {
  std::vector<int> most;
  for (const ActionList& list : lists) most.push_back(most_open_weights(list));
  return most;
}

TEST(OpenWeights, OfTheSchedules) {
  EXPECT_THAT(open(pipeline_actions({PipelineSchedule::one_f_one_b, 2, 1, 4})), ElementsAre(0, 0));
  EXPECT_THAT(open(pipeline_actions({PipelineSchedule::zb_h1, 4, 1, 8})), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(open(pipeline_actions({PipelineSchedule::zbv, 4, 2, 8})), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(open(pipeline_actions({PipelineSchedule::dual_pipe_v, 4, 2, 8})), ElementsAre(1, 2, 3, 4));
}

TEST(OpenWeights, TheOldestIsComputedEarlier) {
  const ActionList last = pipeline_actions({PipelineSchedule::zb_h1, 4, 1, 6})[3];
  ASSERT_EQ(labels(last, 1), "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5");
  EXPECT_EQ(labels(cap_open_weights(last, 4), 1), labels(last, 1));
  EXPECT_EQ(labels(cap_open_weights(last, 3), 1), "F0 I0 F1 I1 F2 I2 F3 W0 I3 F4 W1 I4 F5 W2 I5 W3 W4 W5");
  EXPECT_EQ(labels(cap_open_weights(last, 1), 1), "F0 I0 F1 W0 I1 F2 W1 I2 F3 W2 I3 F4 W3 I4 F5 W4 I5 W5");
  EXPECT_EQ(labels(cap_open_weights(last, 0), 1), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
}

// Zero bubble without open weight gradients is 1F1B.
TEST(OpenWeights, NoneIs1F1B) {
  EXPECT_EQ(capped({PipelineSchedule::zb_h1, 4, 1, 9}, 0), pipeline_actions({PipelineSchedule::one_f_one_b, 4, 1, 9}));
}

TEST(OpenWeights, EveryShapeAndCap) {
  for (const PipelineShape& shape : all_shapes()) {
    const ActionLists before = pipeline_actions(shape);
    const std::vector<int> open_before = open(before);
    if (*std::max_element(open_before.begin(), open_before.end()) == 0) continue;
    for (const int most : {0, 1, 3}) {
      const ActionLists lists = capped(shape, most);
      ASSERT_NO_THROW(check_messages(with_messages(lists, StagePlacement(shape)), shape)) << described(shape);
      for (size_t rank = 0; rank < lists.size(); ++rank) {
        ASSERT_EQ(most_open_weights(lists[rank]), std::min(open_before[rank], most)) << described(shape) << " " << most;
        ASSERT_LE(assign_slots(lists[rank]).slots, assign_slots(before[rank]).slots) << described(shape);
        std::map<int, int> next;  // of each chunk: weight gradients keep their order
        for (const PipelineAction& action : lists[rank])
          if (frees_activations(action.kind)) {
            ASSERT_EQ(action.micro_batch, next[action.chunk]++) << described(shape);
          }
      }
    }
  }
}

// From 1F1B to ZB-H1.
TEST(OpenWeights, TradeMemoryForBubble) {
  const PipelineShape shape{PipelineSchedule::zb_h1, 4, 1, 8};
  std::vector<double> makespans;
  for (int most = 0; most <= 4; ++most)
    makespans.push_back(simulate(capped(shape, most), StagePlacement(shape), {.stages = {{1, 1, 1}}}).makespan);
  EXPECT_THAT(makespans, ElementsAre(33, 30, 29, 28, 27));
}

TEST(OpenWeights, NegativeCap) {
  EXPECT_THROW((void)cap_open_weights(pipeline_actions({PipelineSchedule::zb_h1, 2, 1, 2})[0], -1), Error);
}

}  // namespace
}  // namespace partita::internal
