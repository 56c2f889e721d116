// The parts of a ZeroOptimizer, for code of this layer in files of its own.
#pragma once
#include <cstdint>

#include "partita/module/caller_stream.h"
#include "partita/module/module_parameters.h"
#include "partita/module/zero_optimizer.h"
#include "partita/shard/zero.h"

namespace partita::internal {

struct OptimizerAccess {
  [[nodiscard]] static OptimizerAccess to(ZeroOptimizer&);

  const ModuleParts &parts, &frozen;  // frozen: with stage 3
  const Zero& zero;
  int64_t &steps, &updates;
  bool of_torch;  // an optimizer of torch updates the weights
  const CallerStream& caller;
};

}  // namespace partita::internal
