#include "partita/pipeline/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "partita/pipeline/messages.h"
#include "tests/pipeline/cases.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;

std::vector<int> peaks(const PipelineShape& shape) {
  std::vector<int> slots;
  for (const ActionList& list : pipeline_actions(shape)) slots.push_back(assign_slots(list).slots);
  return slots;
}

TEST(Slots, LowestFreeOne) {
  const ActionLists lists = pipeline_actions({PipelineSchedule::one_f_one_b, 2, 1, 3});
  const ActivationSlots plan = assign_slots(lists[0]);  // F0 F1 B0 F2 B1 B2
  EXPECT_THAT(plan.slot, ElementsAre(0, 1, 0, 0, 1, 0));
  EXPECT_EQ(plan.slots, 2);
  EXPECT_THAT(assign_slots(lists[1]).slot, ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(Slots, LowestOfSeveral) {
  constexpr auto kF = ActionKind::forward, kB = ActionKind::backward;
  const ActionList list = {{kF, 0, 0}, {kF, 0, 1}, {kF, 0, 2}, {kB, 0, 1}, {kB, 0, 0}, {kF, 0, 3}, {kF, 0, 4}};
  EXPECT_THAT(assign_slots(list).slot, ElementsAre(0, 1, 2, 1, 0, 0, 1));
}

TEST(Slots, HeldUntilTheWeightGradient) {
  const ActionLists lists = pipeline_actions({PipelineSchedule::zb_h1, 2, 1, 3});
  const ActivationSlots plan = assign_slots(lists[1]);  // F0 I0 F1 I1 W0 F2 I2 W1 W2
  EXPECT_THAT(plan.slot, ElementsAre(0, 0, 1, 1, 0, 0, 0, 1, 0));
  EXPECT_EQ(plan.slots, 2);
}

TEST(Slots, MessagesHaveNone) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 1, 1};
  EXPECT_THAT(assign_slots(with_messages(pipeline_actions(shape), StagePlacement(shape))[0]).slot,
              ElementsAre(0, -1, -1, 0));
}

TEST(Slots, NoAction) { EXPECT_EQ(assign_slots({}).slots, 0); }

// Chunks of micro-batches, first to last rank; 16 micro-batches, of which the pipeline holds a few.
TEST(Slots, PeaksOfTheSchedules) {
  EXPECT_THAT(peaks({PipelineSchedule::gpipe, 4, 1, 16}), ElementsAre(16, 16, 16, 16));
  EXPECT_THAT(peaks({PipelineSchedule::looped_bfs, 4, 2, 16}), ElementsAre(32, 32, 32, 32));
  EXPECT_THAT(peaks({PipelineSchedule::one_f_one_b, 4, 1, 16}), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks({PipelineSchedule::interleaved, 4, 2, 16}),
              ElementsAre(11, 9, 7, 5));  // 5.5 .. 2.5 stages of a rank
  EXPECT_THAT(peaks({PipelineSchedule::zb_h1, 4, 1, 16}), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(peaks({PipelineSchedule::interleaved_zero_bubble, 4, 2, 16}), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(peaks({PipelineSchedule::zbv, 4, 2, 16}), ElementsAre(8, 8, 8, 8));
  EXPECT_THAT(peaks({PipelineSchedule::dual_pipe_v, 4, 2, 16}), ElementsAre(9, 9, 9, 9));
}

TEST(Slots, PeaksByFormula) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int r = 0; r < ranks; ++r) {
      const auto at = [&](PipelineSchedule schedule, int chunks, int micro_batches) {
        return peaks({schedule, ranks, chunks, micro_batches})[static_cast<size_t>(r)];
      };
      EXPECT_EQ(at(PipelineSchedule::one_f_one_b, 1, 2 * ranks + 1), ranks - r);
      EXPECT_EQ(at(PipelineSchedule::one_f_one_b, 1, 1), 1);
      EXPECT_EQ(at(PipelineSchedule::zb_h1, 1, 2 * ranks + 1), ranks);
      for (int chunks = 2; chunks <= 3; ++chunks)
        EXPECT_EQ(at(PipelineSchedule::interleaved, chunks, 2 * ranks), chunks * ranks + ranks - 1 - 2 * r)
            << ranks << " " << chunks << " " << r;
      EXPECT_EQ(at(PipelineSchedule::zbv, 2, 2 * ranks), 2 * ranks);
      EXPECT_EQ(at(PipelineSchedule::dual_pipe_v, 2, 2 * ranks), 2 * ranks + 1);
    }
  }
}

// No slot is taken while it is held, and as many are used as are held at once.
TEST(Slots, OfEveryShape) {
  for (const PipelineShape& shape : all_shapes())
    for (const ActionList& list : pipeline_actions(shape)) {
      const ActivationSlots plan = assign_slots(list);
      ASSERT_EQ(plan.slot.size(), list.size());
      std::map<int, std::pair<int, int>> holder;  // of each slot
      size_t most = 0;
      for (size_t i = 0; i < list.size(); ++i) {
        const std::pair key(list[i].chunk, list[i].micro_batch);
        if (list[i].kind == ActionKind::forward) {
          ASSERT_TRUE(holder.emplace(plan.slot[i], key).second) << described(shape);
        }
        ASSERT_EQ(holder.at(plan.slot[i]), key) << described(shape);
        most = std::max(most, holder.size());
        if (frees_activations(list[i].kind)) holder.erase(plan.slot[i]);
      }
      ASSERT_EQ(plan.slots, static_cast<int>(most)) << described(shape);
      ASSERT_EQ(*std::max_element(plan.slot.begin(), plan.slot.end()), plan.slots - 1) << described(shape);
    }
}

}  // namespace
}  // namespace partita::internal
