// LAMB over slices of units (ops/lamb.h).
//
// The ratio |w| / |u| is that of whole parameters, however they are cut, and scales every parameter, as in the paper;
// those without weight decay too. Implementations differ there: TensorFlow's and NVIDIA Apex's (but for its NVLAMB)
// leave parameters without weight decay at ratio 1.
#pragma once
#include <memory>

#include "partita/optim/optimizer.h"

namespace partita::internal {

[[nodiscard]] std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions&);

}  // namespace partita::internal
