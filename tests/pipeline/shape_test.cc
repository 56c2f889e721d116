#include "partita/pipeline/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "partita/base/error.h"
#include "partita/pipeline/placement.h"
#include "partita/pipeline/schedules.h"

namespace partita::internal {
namespace {

std::string error_of(const PipelineShape& shape) {
  try {
    check_shape(shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PipelineShape, Errors) {
  EXPECT_EQ(error_of({PipelineSchedule::one_f_one_b, 0, 1, 1}),
            "a pipeline has at least one rank, not 0: choose a positive number");
  EXPECT_EQ(error_of({PipelineSchedule::one_f_one_b, 1, -1, 1}),
            "a pipeline has at least one stage per rank, not -1: choose a positive number");
  EXPECT_EQ(error_of({PipelineSchedule::one_f_one_b, 1, 1, 0}),
            "a pipeline has at least one micro-batch, not 0: choose a positive number");
  EXPECT_EQ(error_of({PipelineSchedule::one_f_one_b, 2, 3, 1}),
            "pipeline schedule 1f1b has 1 stage per rank, not 3: set virtual_stages=1, or use schedule interleaved");
  EXPECT_EQ(error_of({PipelineSchedule::gpipe, 2, 2, 1}),
            "pipeline schedule gpipe has 1 stage per rank, not 2: set virtual_stages=1, or use schedule looped_bfs");
  EXPECT_EQ(error_of({PipelineSchedule::zb_h1, 2, 2, 1}),
            "pipeline schedule zb_h1 has 1 stage per rank, not 2: set virtual_stages=1, or use schedule "
            "interleaved_zero_bubble");
  EXPECT_EQ(error_of({PipelineSchedule::zbv, 2, 1, 1}),
            "pipeline schedule zbv has 2 stages per rank, not 1: set virtual_stages=2, or use schedule "
            "interleaved_zero_bubble");
  EXPECT_EQ(error_of({PipelineSchedule::dual_pipe_v, 2, 3, 1}),
            "pipeline schedule dual_pipe_v has 2 stages per rank, not 3: set virtual_stages=2, or use schedule "
            "interleaved_zero_bubble");
}

TEST(PipelineShape, SizesThatNoMemoryHolds) {
  EXPECT_EQ(error_of({PipelineSchedule::one_f_one_b, 1, 1, 10'000'000}), "");
  EXPECT_THAT(error_of({PipelineSchedule::one_f_one_b, 1, 1, 10'000'001}), testing::HasSubstr("at most 10000000"));
  EXPECT_THAT(error_of({PipelineSchedule::interleaved, 1 << 30, 1 << 4, 1 << 30}), testing::HasSubstr("at most"))
      << "their product is 0 in 64 bits";
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THAT(error_of({PipelineSchedule::interleaved, kMost, kMost, kMost}), testing::HasSubstr("micro-batches: use"));
  EXPECT_THROW((void)pipeline_actions({PipelineSchedule::interleaved, kMost, kMost, kMost}), Error);
  EXPECT_THROW(StagePlacement({PipelineSchedule::interleaved, kMost, kMost, kMost}), Error);
}

}  // namespace
}  // namespace partita::internal
