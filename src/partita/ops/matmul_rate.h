// Matmul throughput that the device reaches in practice: the ceiling to compare a run's speed with.
#pragma once
#include "partita/base/dtype.h"

namespace partita::internal {

// FLOP/s of a square matmul that fits in the last-level cache, with the threads of this process; the best of a few
// tries, in about 0.1 s.
[[nodiscard]] double matmul_rate(DType);

}  // namespace partita::internal
