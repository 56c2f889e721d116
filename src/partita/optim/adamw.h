// AdamW over slices of units (ops/adamw.h).
#pragma once
#include <memory>

#include "partita/optim/optimizer.h"

namespace partita::internal {

[[nodiscard]] std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions&);

}  // namespace partita::internal
