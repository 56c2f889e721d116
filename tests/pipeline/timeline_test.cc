#include "partita/pipeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "partita/base/error.h"
#include "partita/pipeline/slots.h"
#include "tests/pipeline/cases.h"

namespace partita::internal {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Of a whole rank: a chunk takes an equal part.
Timeline simulated(const PipelineShape& shape, const StageTimes& times, double hop = 0, double overlap = 0) {
  const double v = shape.chunks;
  return simulate(pipeline_actions(shape), StagePlacement(shape),
                  {.stages = {{times.forward / v, times.input_gradient / v, times.weight_gradient / v}},
                   .hop = hop,
                   .overlap = overlap});
}

// Rounded to that many digits after the point.
double rounded(double value, int digits) { return std::round(value * std::pow(10, digits)) / std::pow(10, digits); }

// P. Qi et al., "Zero bubble pipeline parallelism", arXiv 2401.10241, table 5, with the times of its table 6.
TEST(Timeline, BubblesOfTheZeroBubblePaper) {
  struct Row {
    int ranks, micro_batches;
    StageTimes times;
    double hop, one_f_one_b, zb_h1;
  };
  for (const Row& row : {Row{8, 24, {18.522, 18.086, 9.337}, .601, .2431, .1585},
                         {16, 48, {11.347, 11.248, 8.132}, .377, .2552, .1397},
                         {32, 256, {10.402, 10.248, 7.698}, .460, .1352, .0594}}) {
    const auto bubble = [&](PipelineSchedule schedule) {
      return rounded(simulated({schedule, row.ranks, 1, row.micro_batches}, row.times, row.hop).bubble, 4);
    };
    EXPECT_EQ(bubble(PipelineSchedule::one_f_one_b), row.one_f_one_b) << row.ranks;
    EXPECT_EQ(bubble(PipelineSchedule::zb_h1), row.zb_h1) << row.ranks;
  }
}

// Of a 7B model, in percent: computed by an independent simulator with torch's lists.
TEST(Timeline, BubblesOfA7B) {
  constexpr StageTimes k7B{1, 1.29, .84}, kRecomputed{1, 2.29, .84};
  const auto percent = [](int ranks, int micro_batches, const StageTimes& times) {
    std::vector<double> bubbles;
    for (const PipelineSchedule schedule :
         {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved, PipelineSchedule::zb_h1,
          PipelineSchedule::interleaved_zero_bubble, PipelineSchedule::zbv, PipelineSchedule::dual_pipe_v}) {
      const bool one = schedule == PipelineSchedule::one_f_one_b || schedule == PipelineSchedule::zb_h1;
      bubbles.push_back(rounded(100 * simulated({schedule, ranks, one ? 1 : 2, micro_batches}, times, .02).bubble, 1));
    }
    return bubbles;
  };
  EXPECT_THAT(percent(4, 8, k7B), ElementsAre(27.9, 16.6, 15.5, 9.1, 8.1, 13.9));
  EXPECT_THAT(percent(4, 16, k7B), ElementsAre(16.6, 9.0, 8.4, 4.7, 4.2, 7.9));
  EXPECT_THAT(percent(2, 8, k7B), ElementsAre(11.6, 6.3, 5.8, 3.3, 2.7, 5.2));
  EXPECT_THAT(percent(4, 8, kRecomputed), ElementsAre(27.8, 16.4, 18.7, 10.8, 12.4, 17.6));
}

// The time of the bubble, without hops, for any number of ranks.
TEST(Timeline, BubblesByFormula) {
  constexpr StageTimes kTimes{1, 1.3, .8};
  constexpr double kAll = 1 + 1.3 + .8;
  const auto bubble = [&](PipelineSchedule schedule, int ranks, int chunks, int micro_batches) {
    return simulated({schedule, ranks, chunks, micro_batches}, kTimes).makespan - micro_batches * kAll;
  };
  for (int ranks = 1; ranks <= 8; ++ranks) {
    EXPECT_NEAR(bubble(PipelineSchedule::gpipe, ranks, 1, 3 * ranks + 1), (ranks - 1) * kAll, 1e-9) << ranks;
    EXPECT_NEAR(bubble(PipelineSchedule::one_f_one_b, ranks, 1, 3 * ranks + 1), (ranks - 1) * kAll, 1e-9) << ranks;
    EXPECT_NEAR(bubble(PipelineSchedule::zb_h1, ranks, 1, 3 * ranks + 1), (ranks - 1) * (1 + 1.3 - .8), 1e-9) << ranks;
    for (int chunks = 1; chunks <= 3; ++chunks) {
      EXPECT_NEAR(bubble(PipelineSchedule::looped_bfs, ranks, chunks, 3 * ranks), (ranks - 1) * kAll / chunks, 1e-9)
          << ranks << " " << chunks;
      EXPECT_NEAR(bubble(PipelineSchedule::interleaved, ranks, chunks, 3 * ranks), (ranks - 1) * kAll / chunks, 1e-9)
          << ranks << " " << chunks;
      EXPECT_NEAR(bubble(PipelineSchedule::interleaved_zero_bubble, ranks, chunks, 3 * ranks),
                  (ranks - 1) * (1 + 1.3 - .8) / chunks, 1e-9)
          << ranks << " " << chunks;
    }
  }
}

// With equal times, no rank waits between its first and its last action, and rank r starts r half forwards late.
TEST(Timeline, ZbvHasNoBubbleIfAllTimesAreEqual) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const int micro_batches : {2 * ranks - 1, 2 * ranks, 5 * ranks}) {
      const Timeline timeline = simulated({PipelineSchedule::zbv, ranks, 2, micro_batches}, {1, 1, 1});
      for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
        EXPECT_NEAR(timeline.ranks[rank].front().start, .5 * static_cast<double>(rank), 1e-9);
        EXPECT_NEAR(timeline.ranks[rank].back().end - timeline.ranks[rank].front().start, 3 * micro_batches, 1e-9)
            << ranks << " " << micro_batches << " " << rank;
      }
    }
}

TEST(Timeline, DualPipeVWithoutOverlap) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    // (D/2 - 1)(F&B + B - 3W) of D = 2P chunks: github.com/deepseek-ai/DualPipe. F&B: the time of a pair.
    const Timeline timeline = simulated({PipelineSchedule::dual_pipe_v, ranks, 2, 4 * ranks}, {2, 2, 2});
    EXPECT_NEAR(timeline.makespan - 4.0 * ranks * 6, (ranks - 1) * (3. + 2. - 3 * 1.), 1e-9) << ranks;
  }
}

TEST(Timeline, SpansOfASmallPipeline) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 2, 1, 2};
  const Timeline timeline =
      simulate(pipeline_actions(shape), StagePlacement(shape),
               {.stages = {{.forward = 1, .input_gradient = 2, .weight_gradient = 3}, {2, 4, 1}}, .hop = .5});
  std::vector<double> starts, ends;
  for (const auto& spans : timeline.ranks)
    for (const Timeline::Span& span : spans) {
      starts.push_back(span.start);
      ends.push_back(span.end);
    }
  EXPECT_THAT(starts, ElementsAre(0, 1, 9, 16, /* rank 1 */ 1.5, 3.5, 8.5, 10.5));
  EXPECT_THAT(ends, ElementsAre(1, 2, 14, 21, /* rank 1 */ 3.5, 8.5, 10.5, 15.5));
  EXPECT_EQ(timeline.makespan, 21);
  EXPECT_THAT(timeline.busy, ElementsAre(12, 14));
  EXPECT_EQ(timeline.bubble, 1 - 14. / 21) << "what the busiest rank waits";
}

TEST(Timeline, TimesAreOfStages) {
  // Stages 0 and 3 on rank 0, 1 and 2 on rank 1.
  const PipelineShape shape{PipelineSchedule::zbv, 2, 2, 1};
  const Timeline timeline = simulate(pipeline_actions(shape), StagePlacement(shape),
                                     {.stages = {{1, 0, 0}, {10, 0, 0}, {100, 0, 0}, {1000, 0, 0}}});
  EXPECT_EQ(timeline.makespan, 1111);
  EXPECT_THAT(timeline.busy, ElementsAre(1001, 110));
}

TEST(Timeline, NoHopWithinARank) {
  const PipelineShape shape{PipelineSchedule::zbv, 1, 2, 1};
  EXPECT_EQ(simulated(shape, {2, 2, 2}, 100).makespan, 6);
}

TEST(Timeline, Pairs) {
  const PipelineShape shape{PipelineSchedule::dual_pipe_v, 1, 2, 2};  // F0 f0 F1 b0 [f1 B0] b1 I1 W1
  ASSERT_EQ(labels(pipeline_actions(shape)[0], 2), "F0 f0 F1 b0 [f1 B0] b1 I1 W1");
  const StageTimes times{2, 4, 2};  // a chunk: 1, 2, 1
  EXPECT_EQ(simulated(shape, times).makespan, 16);
  EXPECT_EQ(simulated(shape, times, 0, .5).makespan, 15.5);
  const Timeline all = simulated(shape, times, 0, 1);
  EXPECT_EQ(all.makespan, 15) << "the forward takes no time of its own";
  EXPECT_THAT(all.busy, ElementsAre(15));
  EXPECT_EQ(all.ranks[0][4].start, 6);
  EXPECT_EQ(all.ranks[0][4].end, 9);
  EXPECT_EQ(all.ranks[0][5].start, 6);
  EXPECT_EQ(all.ranks[0][5].end, 9);
}

TEST(Timeline, Errors) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 3, 1, 2};
  const auto error = [&](const PipelineTimes& times) -> std::string {
    try {
      (void)simulate(pipeline_actions(shape), StagePlacement(shape), times);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error({.stages = {{}, {}}}),
            "pipeline: times of 2 stages for 3 stages: expected one for each, or one for all");
  EXPECT_EQ(error({}), "pipeline: times of 0 stages for 3 stages: expected one for each, or one for all");
  EXPECT_EQ(error({.stages = {{.forward = -1}}}), "pipeline: a forward pass takes -1: expected a time of at least 0");
  EXPECT_EQ(error({.stages = {{.input_gradient = NAN}}}),
            "pipeline: an input gradient takes nan: expected a time of at least 0");
  EXPECT_EQ(error({.stages = {{.weight_gradient = INFINITY}}}),
            "pipeline: a weight gradient takes inf: expected a time of at least 0");
  EXPECT_EQ(error({.stages = {{}}, .hop = -.5}), "pipeline: a hop takes -0.5: expected a time of at least 0");
  EXPECT_EQ(error({.stages = {{}}, .overlap = 1.5}), "pipeline: overlap is 1.5: expected a part, from 0 to 1");
}

TEST(Timeline, StagesThatTakeNoTime) {
  const Timeline timeline = simulated({PipelineSchedule::one_f_one_b, 2, 1, 2}, {0, 0, 0});
  EXPECT_EQ(timeline.makespan, 0);
  EXPECT_EQ(timeline.bubble, 0);
}

}  // namespace
}  // namespace partita::internal
