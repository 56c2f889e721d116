#include "partita/pipeline/messages.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/pipeline/check.h"
#include "tests/pipeline/cases.h"

namespace partita::internal {
namespace {

// Stages as in torch: 0F0 a pass, s0F0 and r1F0 the two ends of a message, of an output (F) or a gradient (B).
std::string spelled(const ActionList& list, int rank, const StagePlacement& placement) {
  constexpr std::array kPrefix = {"", "", "", "", "s", "r", "s", "r"};
  constexpr std::string_view kLetter = "FBIWFFBB";
  std::string text;
  for (const PipelineAction& action : list)
    text += (text.empty() ? "" : " ") + std::string(kPrefix[static_cast<size_t>(action.kind)]) +
            std::to_string(placement.stage(rank, action.chunk)) + kLetter[static_cast<size_t>(action.kind)] +
            std::to_string(action.micro_batch);
  return text;
}

// The list of torch 2.15.0.
TEST(Messages, InterleavedAsTorch) {
  const PipelineShape shape{PipelineSchedule::interleaved, 2, 2, 4};
  const StagePlacement placement(shape);
  const ActionLists lists = with_messages(pipeline_actions(shape), placement);
  ASSERT_EQ(lists.size(), 2U);
  EXPECT_EQ(spelled(lists[0], 0, placement),
            "0F0 s0F0 r2F0 0F1 s0F1 r2F1 2F0 s2F0 2F1 s2F1 r2B0 0F2 s0F2 2B0 s2B0 r2B1 0F3 s0F3 r2F2 2B1 s2B1 r0B0 2F2 "
            "s2F2 r2F3 0B0 r0B1 2F3 s2F3 0B1 r2B2 2B2 s2B2 r2B3 2B3 s2B3 r0B2 0B2 r0B3 0B3");
  EXPECT_EQ(spelled(lists[1], 1, placement),
            "r1F0 1F0 s1F0 r1F1 1F1 s1F1 r3F0 3F0 r3F1 3B0 s3B0 r1F2 3F1 r1B0 3B1 s3B1 r1F3 1F2 s1F2 r1B1 1B0 s1B0 "
            "r3F2 1F3 s1F3 1B1 s1B1 r3F3 3F2 3B2 s3B2 r1B2 3F3 3B3 s3B3 r1B3 1B2 s1B2 1B3 s1B3");
}

TEST(Messages, NameTheOtherRank) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 1, 1};
  const ActionLists lists = with_messages(pipeline_actions(shape), StagePlacement(shape));
  const ActionList first = {{ActionKind::forward},
                            {.kind = ActionKind::send_activation, .peer = 1},
                            {.kind = ActionKind::receive_gradient, .peer = 1},
                            {ActionKind::backward}};
  const ActionList second = {{.kind = ActionKind::receive_activation, .peer = 0},
                             {ActionKind::forward},
                             {ActionKind::backward},
                             {.kind = ActionKind::send_gradient, .peer = 0}};
  EXPECT_EQ(lists, (ActionLists{first, second}));
}

TEST(Messages, TheTurnOfAVHasNone) {
  const PipelineShape shape{PipelineSchedule::zbv, 2, 2, 1};
  const StagePlacement placement(shape);
  const ActionLists lists = with_messages(pipeline_actions(shape), placement);
  EXPECT_EQ(spelled(lists[0], 0, placement), "0F0 s0F0 r3F0 3F0 3I0 s3B0 3W0 r0B0 0I0 0W0");
  EXPECT_EQ(spelled(lists[1], 1, placement), "r1F0 1F0 2F0 s2F0 r2B0 2I0 2W0 1I0 s1B0 1W0");
}

TEST(Messages, OneRankHasNone) {
  for (const PipelineSchedule schedule : kAllSchedules) {
    const PipelineShape shape{schedule, 1, chunks_for(schedule).back(), 3};
    EXPECT_EQ(with_messages(pipeline_actions(shape), StagePlacement(shape)), pipeline_actions(shape));
  }
}

// Both messages of a pair follow it.
TEST(Messages, PairsStayTogether) {
  const PipelineShape shape{PipelineSchedule::dual_pipe_v, 3, 2, 7};
  int pairs = 0;
  for (const ActionList& list : with_messages(pipeline_actions(shape), StagePlacement(shape)))
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i].with_next) {
        ++pairs;
        EXPECT_EQ(list[i + 1].kind, ActionKind::backward);
      }
  EXPECT_EQ(pairs, 6 + 7 + 7);
}

// Even if every operation blocks.
TEST(Messages, EveryShapeRunsThrough) {
  for (const PipelineShape& shape : all_shapes()) {
    const StagePlacement placement(shape);
    ASSERT_NO_THROW(check_messages(with_messages(pipeline_actions(shape), placement), shape)) << described(shape);
  }
}

// Number of messages: an output and a gradient for each boundary between ranks and micro-batch, sent and received.
TEST(Messages, AreAsManyAsBoundaries) {
  for (const PipelineShape& shape : all_shapes()) {
    const StagePlacement placement(shape);
    int boundaries = 0, messages = 0;
    for (int stage = 0; stage < placement.stages(); ++stage) boundaries += placement.handed_over(stage) ? 1 : 0;
    for (const ActionList& list : with_messages(pipeline_actions(shape), placement))
      for (const PipelineAction& action : list) messages += is_message(action.kind) ? 1 : 0;
    ASSERT_EQ(messages, 4 * boundaries * shape.micro_batches) << described(shape);
  }
}

TEST(Messages, ListsThatGetStuck) {
  const ActionLists swapped = {{{ActionKind::forward}, {ActionKind::backward}},
                               {{ActionKind::backward}, {ActionKind::forward}}};
  EXPECT_THROW((void)with_messages(swapped, StagePlacement(StagePlacement::Kind::loop, 2, 1)), Error);
}

}  // namespace
}  // namespace partita::internal
