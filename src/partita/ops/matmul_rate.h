// What the device really reaches in matrix products: the ceiling beside which a run's speed is shown.
#pragma once
#include "partita/base/dtype.h"

namespace partita::internal {

// FLOP/s of a square product that fits the last-level cache, with the threads that this process uses; the best of a few
// tries, in about a tenth of a second.
[[nodiscard]] double matmul_rate(DType);

}  // namespace partita::internal
