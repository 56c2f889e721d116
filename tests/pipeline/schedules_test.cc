#include "partita/pipeline/schedules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "partita/pipeline/check.h"
#include "tests/pipeline/cases.h"

namespace partita::internal {
namespace {

using testing::Optional;

// "F0-3" becomes "F0 F1 F2 F3".
std::string expanded(const std::string& compact) {
  std::istringstream in(compact);
  std::string text;
  for (std::string word; in >> word;) {
    const size_t dash = word.find('-');
    const int first = dash == word.npos ? 0 : std::stoi(word.substr(1, dash - 1));
    const int last = dash == word.npos ? 0 : std::stoi(word.substr(dash + 1));
    for (int m = first; m <= last; ++m)
      text += (text.empty() ? "" : " ") + (dash == word.npos ? word : word[0] + std::to_string(m));
  }
  return text;
}

void expect_lists(const PipelineShape& shape, const std::vector<std::string>& expected) {
  const ActionLists lists = pipeline_actions(shape);
  ASSERT_EQ(lists.size(), expected.size());
  for (size_t rank = 0; rank < lists.size(); ++rank)
    EXPECT_EQ(labels(lists[rank], shape.chunks), expanded(expected[rank])) << described(shape) << " rank " << rank;
}

TEST(Schedules, SmallOnesAsDrawnByHand) {
  expect_lists({PipelineSchedule::gpipe, 2, 1, 2}, {"F0 F1 B0 B1", "F0 F1 B0 B1"});
  expect_lists({PipelineSchedule::one_f_one_b, 2, 1, 3}, {"F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"});
  expect_lists({PipelineSchedule::looped_bfs, 2, 2, 2}, {"F0 F1 f0 f1 b1 b0 B1 B0", "F0 F1 f0 f1 b1 b0 B1 B0"});
  expect_lists({PipelineSchedule::zb_h1, 2, 1, 3}, {"F0 F1 I0 W0 F2 I1 W1 I2 W2", "F0 I0 F1 I1 W0 F2 I2 W1 W2"});
}

TEST(Schedules, OneRank) {
  expect_lists({PipelineSchedule::one_f_one_b, 1, 1, 3}, {"F0 B0 F1 B1 F2 B2"});
  expect_lists({PipelineSchedule::zb_h1, 1, 1, 2}, {"F0 I0 W0 F1 I1 W1"});
  expect_lists({PipelineSchedule::interleaved, 1, 2, 2}, {"F0 f0 b0 F1 B0 f1 b1 B1"});
  expect_lists({PipelineSchedule::zbv, 1, 2, 2}, {"F0 f0 i0 w0 F1 I0 W0 f1 i1 w1 I1 W1"});
}

// Lists of torch 2.15.0, torch.distributed.pipelining.
TEST(Schedules, ZbH1AsTorch) {
  expect_lists({PipelineSchedule::zb_h1, 4, 1, 8},
               {"F0-3 I0 W0 F4 I1 W1 F5 I2 W2 F6 I3 W3 F7 I4 W4 I5 W5 I6 W6 I7 W7",
                "F0-2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 F6 I4 W3 F7 I5 W4 I6 W5 I7 W6-7",
                "F0-1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 F6 I5 W3 F7 I6 W4 I7 W5-7",
                "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 F6 I6 W3 F7 I7 W4-7"});
}

TEST(Schedules, InterleavedAsTorch) {
  expect_lists({PipelineSchedule::interleaved, 4, 2, 8},
               {"F0-3 f0-3 F4-6 b0 F7 b1 f4 b2 f5 b3 f6 B0 f7 B1-3 b4-7 B4-7",
                "F0-3 f0-3 F4 b0 F5 b1 F6 b2 F7 b3 f4 B0 f5 B1 f6 B2 f7 B3 b4-7 B4-7",
                "F0-3 f0-2 b0 f3 b1 F4 b2 F5 b3 F6 B0 F7 B1 f4 B2 f5 B3 f6 b4 f7 b5-7 B4-7",
                "F0-3 f0 b0 f1 b1 f2 b2 f3 b3 F4 B0 F5 B1 F6 B2 F7 B3 f4 b4 f5 b5 f6 b6 f7 b7 B4-7"});
}

TEST(Schedules, ZbvAsTorch) {
  expect_lists({PipelineSchedule::zbv, 4, 2, 8},
               {"F0-6 f0 i0 w0 f1 i1 w1 f2 i2 w2 f3 i3 w3 F7 I0 W0 f4 i4 w4 I1 W1 f5 i5 w5 I2 W2 f6 i6 w6 I3 W3 f7 i7 "
                "w7 I4 W4 I5 W5 I6 W6 I7 W7",
                "F0-4 f0 F5 f1 i0 w0 f2 i1 w1 f3 i2 w2 F6 I0 W0 f4 i3 w3 F7 I1 W1 f5 i4 w4 I2 W2 f6 i5 w5 I3 W3 f7 i6 "
                "w6 I4 i7 I5 W4 I6 W5 I7 W6 w7 W7",
                "F0-2 f0 F3 f1 F4 f2 i0 w0 f3 i1 w1 F5 I0 W0 f4 i2 w2 F6 I1 W1 f5 i3 w3 F7 I2 W2 f6 i4 w4 I3 W3 f7 i5 "
                "w5 I4 i6 I5 i7 I6 W4 I7 W5 w6-7 W6-7",
                "F0 f0 F1 f1 F2 f2 F3 f3 i0 w0 F4 I0 W0 f4 i1 w1 F5 I1 W1 f5 i2 w2 F6 I2 W2 f6 i3 w3 F7 I3 W3 f7 i4 w4 "
                "I4 i5 I5 i6 I6 i7 I7 W4 w5-7 W5-7"});
}

TEST(Schedules, DualPipeVAsTorch) {
  expect_lists({PipelineSchedule::dual_pipe_v, 4, 2, 8},
               {"F0-6 f0 i0 w0 f1 i1 w1 f2 i2 w2 f3 [F7 b3] [f4 B0] b4 [f5 B1] b5 [f6 B2] b6 [f7 B3] b7 I4 W4 I5 W5 I6 "
                "W6 I7 W7",
                "F0-4 f0 F5 f1 i0 w0 f2 i1 w1 f3 [F6 b2] [f4 B0] [F7 b3] [f5 B1] b4 [f6 B2] b5 [f7 B3] b6 B4 i7 I5 w7 "
                "I6 W5 I7 W6-7",
                "F0-2 f0 F3 f1 F4 f2 i0 w0 f3 [F5 b1] [f4 B0] [F6 b2] [f5 B1] [F7 b3] [f6 B2] b4 [f7 B3] b5 B4 b6 I5 "
                "i7 I6 W5 I7 w7 W6-7",
                "F0 f0 F1 f1 F2 f2 F3 f3 F4 b0 [f4 B0] [F5 b1] [f5 B1] [F6 b2] [f6 B2] [F7 b3] [f7 B3] b4 B4 b5 B5 i6 "
                "I6 i7 I7 w6 W6 w7 W7"});
}

TEST(Schedules, HashesOfTorchsLists) {
  EXPECT_EQ(torch_hash({PipelineSchedule::one_f_one_b, 4, 1, 8}), "cb7715e04a130a08");
  EXPECT_EQ(torch_hash({PipelineSchedule::interleaved, 4, 2, 8}), "79e821026a5aac50");
  EXPECT_EQ(torch_hash({PipelineSchedule::interleaved, 4, 2, 10}), "f1df37f4df751894");
  EXPECT_EQ(torch_hash({PipelineSchedule::interleaved, 4, 2, 6}), "11f56d241766ad9a");
  EXPECT_EQ(torch_hash({PipelineSchedule::zb_h1, 4, 1, 8}), "49188bb3317b8d9d");
  EXPECT_EQ(torch_hash({PipelineSchedule::interleaved_zero_bubble, 4, 2, 8}), "b34efd65f75dfb68");
  EXPECT_EQ(torch_hash({PipelineSchedule::zbv, 4, 2, 8}), "34fd4086cc1ee5ae");
  EXPECT_EQ(torch_hash({PipelineSchedule::dual_pipe_v, 4, 2, 8}), "f242030a1839d41e");
  // Of other numbers of ranks; ZBV also with fewer micro-batches than fill the ranks.
  EXPECT_EQ(torch_hash({PipelineSchedule::zbv, 3, 2, 5}), "8b585e57843d4f0e");
  EXPECT_EQ(torch_hash({PipelineSchedule::zbv, 5, 2, 3}), "5b4d7bd0e62b56e8");
  EXPECT_EQ(torch_hash({PipelineSchedule::zbv, 7, 2, 20}), "1f3d288b195090ce");
  EXPECT_EQ(torch_hash({PipelineSchedule::dual_pipe_v, 3, 2, 7}), "72719128a7bfea44");
  EXPECT_EQ(torch_hash({PipelineSchedule::dual_pipe_v, 5, 2, 12}), "8ab7d082f4398981");
  EXPECT_EQ(torch_hash({PipelineSchedule::dual_pipe_v, 6, 2, 12}), "bfc3636166bc5e20");
}

// Groups of 3 and 2 for 5 micro-batches on 2 ranks; of all for fewer micro-batches than ranks.
TEST(Schedules, InterleavedGroupsThatDoNotDivide) {
  expect_lists({PipelineSchedule::interleaved, 2, 2, 5}, {"F0-2 f0-1 f2 b0 F3 b1 F4 b2 f3 B0 f4 B1 B2 b3-4 B3-4",
                                                          "F0-2 f0 b0 f1 b1 f2 b2 F3 B0 F4 B1 f3 B2 f4 b3 b4 B3-4"});
  expect_lists({PipelineSchedule::interleaved, 3, 2, 2},
               {"F0-1 f0-1 b0-1 B0-1", "F0-1 f0-1 b0-1 B0-1", "F0-1 f0 b0 f1 b1 B0-1"});
}

// Fewer micro-batches than ZBV and DualPipeV need to fill the ranks: those that exist keep their order.
TEST(Schedules, VWithFewMicroBatches) {
  expect_lists({PipelineSchedule::zbv, 2, 2, 1}, {"F0 f0 i0 w0 I0 W0", "F0 f0 i0 w0 I0 W0"});
  expect_lists({PipelineSchedule::dual_pipe_v, 2, 2, 1}, {"F0 f0 i0 w0 B0", "F0 f0 b0 B0"});
  expect_lists({PipelineSchedule::dual_pipe_v, 2, 2, 3},
               {"F0-2 f0 i0 w0 f1 b1 [f2 B0] b2 B1 I2 W2", "F0 f0 F1 f1 F2 b0 [f2 B0] b1 B1 b2 B2"});
}

TEST(Schedules, EveryShapeIsLegal) {
  for (const PipelineShape& shape : all_shapes())
    ASSERT_NO_THROW(check_actions(pipeline_actions(shape), shape)) << described(shape);
}

// The order of sums over micro-batches, and so every bit of a gradient, does not depend on the schedule.
TEST(Schedules, WeightGradientsRunInTheOrderOfMicroBatches) {
  for (const PipelineShape& shape : all_shapes()) {
    if (shape.schedule == PipelineSchedule::looped_bfs) continue;
    for (const ActionList& list : pipeline_actions(shape)) {
      std::map<int, int> next;  // of each chunk
      for (const PipelineAction& action : list)
        if (frees_activations(action.kind)) {
          ASSERT_EQ(action.micro_batch, next[action.chunk]++) << described(shape);
        }
    }
  }
}

TEST(Schedules, AreNamed) {
  EXPECT_STREQ(name_of(PipelineSchedule::one_f_one_b), "1f1b");
  EXPECT_STREQ(name_of(PipelineSchedule::dual_pipe_v), "dual_pipe_v");
  EXPECT_THAT(find_enum<PipelineSchedule>("interleaved_zero_bubble"),
              Optional(PipelineSchedule::interleaved_zero_bubble));
}

}  // namespace
}  // namespace partita::internal
