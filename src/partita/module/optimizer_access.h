// The parts of a ZeroOptimizer, for code of this layer in files of its own.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "partita/module/module_parameters.h"
#include "partita/module/zero_optimizer.h"
#include "partita/shard/zero.h"

namespace partita::internal {

struct OptimizerAccess {
  [[nodiscard]] static OptimizerAccess to(ZeroOptimizer&);

  const std::vector<std::unique_ptr<ModuleParameters>>& parts;
  const Zero& zero;
  int64_t &steps, &updates;
  bool of_torch;  // an optimizer of torch updates the weights
};

}  // namespace partita::internal
