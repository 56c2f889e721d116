#include "partita/train/measured_timeline.h"

#include <gtest/gtest.h>

#include "partita/base/file.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {
namespace {

TEST(MeasuredTimeline, IsReadWithItsShape) {
  const TemporaryDirectory folder;
  EXPECT_FALSE(read_timeline(folder / "timeline.json"));
  write_file(
      folder / "timeline.json",
      R"({"schedule":"zbv","ranks":2,"chunks":2,"micro_batches":4,"actions":[[[0,1,3,0.5,1.0]],[[0,0,0,0,2.0]]]})");
  const auto step = read_timeline(folder / "timeline.json");
  ASSERT_TRUE(step);
  EXPECT_EQ(step->shape, (PipelineShape{PipelineSchedule::zbv, 2, 2, 4}));
  EXPECT_EQ(step->timeline.makespan, 2);
  EXPECT_EQ(step->timeline.busy, (std::vector{0.5, 2.0}));
  EXPECT_EQ(step->timeline.ranks[0][0].action.micro_batch, 3);
  write_file(folder / "timeline.json", R"({"schedule":"zbx","ranks":2,"chunks":2,"micro_batches":4,"actions":[]})");
  EXPECT_NE(error_message([&] { (void)read_timeline(folder / "timeline.json"); }).find("schedule zbx"),
            std::string::npos);
}

TEST(MeasuredTimeline, NamesWhatDiffers) {
  const PipelineShape a{PipelineSchedule::interleaved, 4, 2, 8};
  EXPECT_EQ(shape_difference(a, a), "");
  EXPECT_EQ(shape_difference({PipelineSchedule::one_f_one_b, 4, 1, 8}, a), "schedule 1f1b, not interleaved");
  EXPECT_EQ(shape_difference({PipelineSchedule::interleaved, 4, 1, 8}, a), "1 stage per rank, not 2");
  EXPECT_EQ(shape_difference({PipelineSchedule::zbv, 2, 2, 1}, a),
            "schedule zbv, not interleaved; 2 pipeline ranks, not 4; 1 micro-batch, not 8");
}

}  // namespace
}  // namespace partita::internal
