#include "partita/pipeline/placement.h"

namespace partita::internal {
namespace {

StagePlacement::Kind kind_of(PipelineSchedule schedule) {
  const bool v = schedule == PipelineSchedule::zbv || schedule == PipelineSchedule::dual_pipe_v;
  return v ? StagePlacement::Kind::v : StagePlacement::Kind::loop;
}

}  // namespace

StagePlacement::StagePlacement(const PipelineShape& shape)
    : StagePlacement(kind_of(shape.schedule), shape.ranks, shape.chunks) {
  check_shape(shape);
}

}  // namespace partita::internal
