#include "partita/pipeline/shape.h"

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr int64_t kMostForwards = 10'000'000;  // of all ranks: some 500 MB of actions

struct Chunks {
  int count;            // 0: any
  const char* instead;  // what to do with another number of chunks
};

Chunks chunks_of(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return {1, "looped_bfs"};
    case PipelineSchedule::one_f_one_b:
      return {1, "interleaved"};
    case PipelineSchedule::zb_h1:
      return {1, "interleaved_zero_bubble"};
    case PipelineSchedule::zbv:
    case PipelineSchedule::dual_pipe_v:
      return {2, "interleaved_zero_bubble"};
    case PipelineSchedule::interleaved:
    case PipelineSchedule::looped_bfs:
    case PipelineSchedule::interleaved_zero_bubble:
      break;
  }
  return {0, ""};
}

void check_at_least_one(const char* what, int value) {
  if (value < 1) fail("a pipeline has at least one {}, not {}: choose a positive number", what, value);
}

}  // namespace

void check_shape(const PipelineShape& shape) {
  check_at_least_one("rank", shape.ranks);
  check_at_least_one("stage per rank", shape.chunks);
  check_at_least_one("micro-batch", shape.micro_batches);
  const Chunks expected = chunks_of(shape.schedule);
  if (expected.count > 0 && shape.chunks != expected.count)
    fail("pipeline schedule {} has {} stage{} per rank, not {}: set virtual_stages={}, or use schedule {}",
         name_of(shape.schedule), expected.count, expected.count == 1 ? "" : "s", shape.chunks, expected.count,
         expected.instead);
  // One factor at a time: the product of three may not fit into 64 bits.
  const int64_t stages = int64_t{shape.ranks} * shape.chunks;
  if (stages > kMostForwards || stages * shape.micro_batches > kMostForwards)
    fail(
        "a pipeline step has at most {} forward passes, not those of {} ranks x {} stages per rank x {} micro-batches: "
        "use "
        "fewer micro-batches, each of more samples",
        kMostForwards, shape.ranks, shape.chunks, shape.micro_batches);
}

}  // namespace partita::internal
