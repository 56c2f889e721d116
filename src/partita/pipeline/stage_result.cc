#include "partita/pipeline/stage_result.h"

#include <fmt/format.h>

namespace partita::internal {

std::string result_name(const StageResult& result, const StagePlacement& placement) {
  return fmt::format("the {} of stage {} (rank {}) for micro-batch {}", result.gradient ? "input gradient" : "output",
                     result.stage, placement.rank(result.stage), result.micro_batch);
}

}  // namespace partita::internal
