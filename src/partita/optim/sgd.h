// SGD with momentum over slices of units (ops/sgd.h).
#pragma once
#include <memory>

#include "partita/optim/optimizer.h"

namespace partita::internal {

// With momentum 0 there is no state.
[[nodiscard]] std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions&);

}  // namespace partita::internal
