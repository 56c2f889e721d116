#include "partita/engine/pipeline_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "partita/engine/handover.h"

namespace partita::internal {
namespace {

using testing::ElementsAre;

constexpr Pass kF = Pass::forward, kB = Pass::backward;
constexpr Transfer kNone = Transfer::none, kSend = Transfer::send, kReceive = Transfer::receive;

// On any number of ranks, chunks and micro-batches.
constexpr std::array kSchedules = {PipelineSchedule::gpipe,       PipelineSchedule::one_f_one_b,
                                   PipelineSchedule::interleaved, PipelineSchedule::looped_bfs,
                                   PipelineSchedule::zb_h1,       PipelineSchedule::interleaved_zero_bubble,
                                   PipelineSchedule::zbv,         PipelineSchedule::dual_pipe_v};

template <class Visit>
void each_shape(Visit visit) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const PipelineSchedule schedule : kSchedules)
      for (int chunks = 1; chunks <= 3; ++chunks) {
        const bool one = schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b ||
                         schedule == PipelineSchedule::zb_h1;
        const bool two = schedule == PipelineSchedule::zbv || schedule == PipelineSchedule::dual_pipe_v;
        if ((one && chunks > 1) || (two && chunks != 2)) continue;
        for (int micro_batches = 1; micro_batches <= 2 * ranks + 1; ++micro_batches)
          visit(PipelineShape{schedule, ranks, chunks, micro_batches});
      }
}

TEST(PipelineStage, ListsPassesAndMessages) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 1, 2};
  EXPECT_THAT(stage_actions(shape, 0),
              ElementsAre(Action{kF, 0, 0, false, 0, kNone}, Action{kF, 0, 0, false, 0, kSend, 1},
                          Action{kF, 1, 1, false, 0, kNone}, Action{kF, 1, 0, false, 0, kSend, 1},
                          Action{kB, 0, 0, false, 0, kReceive, 1}, Action{kB, 0, 0, false, 0, kNone},
                          Action{kB, 1, 0, false, 0, kReceive, 1}, Action{kB, 1, 1, true, 0, kNone}));
}

// What activation_slots demands, with slots that belong to one chunk, and messages that fit those of the other ranks.
TEST(PipelineStage, ListsAreComplete) {
  each_shape([](const PipelineShape& shape) {
    using Message = std::tuple<Pass, int, int>;                          // pass, stage whose result it is, micro-batch
    std::map<std::pair<int, int>, std::vector<Message>> sent, received;  // from, to
    const StagePlacement placement(shape);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const std::vector<Action> actions = stage_actions(shape, rank);
      EXPECT_NO_THROW((void)activation_slots(actions, shape.micro_batches));
      std::map<int, std::set<int>> chunks_of_slot;
      for (const Action& a : actions) {
        const int stage = placement.stage(rank, a.chunk);
        if (a.transfer == kNone) {
          chunks_of_slot[a.slot].insert(a.chunk);
          continue;
        }
        // The output of the chunk, or the gradient of its input; of the neighbor, if it is received.
        const int by = a.pass == kF ? -1 : 1;
        if (a.transfer == kSend)
          sent[{rank, a.peer}].push_back({a.pass, stage, a.micro_batch});
        else
          received[{a.peer, rank}].push_back({a.pass, stage + by, a.micro_batch});
      }
      for (const auto& [slot, chunks] : chunks_of_slot) EXPECT_EQ(chunks.size(), 1U) << "slot " << slot;
    }
    EXPECT_EQ(sent, received) << name_of(shape.schedule) << ", ranks " << shape.ranks << ", chunks " << shape.chunks
                              << ", micro-batches " << shape.micro_batches;
  });
}

// A set of open operands belongs to one chunk, and holds one micro-batch at a time, from its input gradients to its
// weight gradients; no more wait than are allowed.
TEST(PipelineStage, OpenGradientsHaveSetsOfTheirOwn) {
  each_shape([](const PipelineShape& shape) {
    for (int rank = 0; rank < shape.ranks; ++rank)
      for (const int most : {-1, 0, 1, 2}) {
        std::map<int, std::set<int>> chunks_of_set;
        std::map<int, int> waits;  // by set: the micro-batch
        for (const Action& a : stage_actions(shape, rank, most)) {
          EXPECT_EQ(a.open >= 0, a.gradients != Gradients::all);
          if (a.open < 0) continue;
          chunks_of_set[a.open].insert(a.chunk);
          if (a.gradients == Gradients::inputs)
            EXPECT_TRUE(waits.emplace(a.open, a.micro_batch).second);
          else
            EXPECT_EQ(waits.at(a.open), a.micro_batch);
          if (a.gradients == Gradients::weights) waits.erase(a.open);
          if (most >= 0) {
            EXPECT_LE(waits.size(), static_cast<size_t>(most));
          }
        }
        EXPECT_TRUE(waits.empty());
        for (const auto& [set, chunks] : chunks_of_set) EXPECT_EQ(chunks.size(), 1U) << "set " << set;
      }
  });
}

// Replays who needs a buffer: never more than planned, and all are free at the end.
TEST(PipelineStage, BuffersSuffice) {
  each_shape([](const PipelineShape& shape) {
    const StagePlacement placement(shape);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const PipelineStage stage{.shape = shape, .rank = rank};
      const std::vector<Action> actions = stage_actions(shape, rank);
      std::set<std::tuple<Pass, bool, int, int>> held;  // pass, to be sent, chunk, micro-batch
      size_t most = 0;
      for (const Action& a : actions) {
        const HandoverUse use = handover_use(a, placement, rank);
        if (a.transfer == kReceive) {
          EXPECT_TRUE(held.insert({a.pass, false, a.chunk, a.micro_batch}).second);
        } else if (a.transfer == kSend) {
          EXPECT_EQ(held.erase({a.pass, true, a.chunk, a.micro_batch}), 1U);
        } else {
          if (use.reads) {
            EXPECT_EQ(held.erase({a.pass, false, a.chunk, a.micro_batch}), 1U) << "read before it was there";
          }
          const bool local = use.local_chunk >= 0;
          if (use.writes) held.insert({a.pass, !local, local ? use.local_chunk : a.chunk, a.micro_batch});
        }
        most = std::max(most, held.size());
      }
      EXPECT_TRUE(held.empty());
      EXPECT_EQ(handover_buffers(actions, stage), static_cast<int>(most) + 2);
    }
  });
}

TEST(PipelineStage, ForwardPassesThroughAllStages) {
  const StagePlacement loop(StagePlacement::Kind::loop, 2, 2);
  EXPECT_THAT(forward_actions(loop, 0),
              ElementsAre(Action{.chunk = 0}, Action{.chunk = 0, .transfer = kSend, .peer = 1},
                          Action{.chunk = 1, .transfer = kReceive, .peer = 1}, Action{.chunk = 1},
                          Action{.chunk = 1, .transfer = kSend, .peer = 1}));
  EXPECT_THAT(forward_actions(StagePlacement(StagePlacement::Kind::loop, 1, 1), 0), ElementsAre(Action{}));
  const StagePlacement v(StagePlacement::Kind::v, 2, 2);
  EXPECT_THAT(forward_actions(v, 1),
              ElementsAre(Action{.chunk = 0, .transfer = kReceive, .peer = 0}, Action{.chunk = 0}, Action{.chunk = 1},
                          Action{.chunk = 1, .transfer = kSend, .peer = 0}));
}

// A block has a backward if it, or anything below it, is trained.
TEST(StepBlocks, BackwardReachesWhatIsTrainedBelow) {
  StepBlocks blocks{.count = 6, .first_trainable = 1, .chunks = {0, 2, 6}, .trains_below = {false, true}};
  EXPECT_EQ(blocks.lowest_backward(0), 1);
  EXPECT_EQ(blocks.lowest_backward(1), 2);
  blocks.first_trainable = 3, blocks.trains_below = {false, false};
  EXPECT_EQ(blocks.lowest_backward(0), 2) << "none";
  EXPECT_EQ(blocks.lowest_backward(1), 3);
  EXPECT_EQ((StepBlocks{.count = 4, .first_trainable = 2}).lowest_backward(0), 2);
}

}  // namespace
}  // namespace partita::internal
