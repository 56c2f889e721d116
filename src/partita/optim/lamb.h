// LAMB over slices of units (ops/lamb.h).
//
// The ratio |w| / |u| is computed over whole parameters regardless of sharding, and applies to every parameter, as in
// the paper, including those without weight decay. Other implementations differ: TensorFlow's and NVIDIA Apex's (except
// its NVLAMB) use ratio 1 without weight decay.
#pragma once
#include <memory>

#include "partita/optim/optimizer.h"

namespace partita::internal {

[[nodiscard]] std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions&);

}  // namespace partita::internal
