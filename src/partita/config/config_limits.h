// The highest value that each number of a configuration may have: beyond it a size could not be meant, or products of
// sizes would no longer be 64-bit integers (config.cc checks products). What fits into memory shows when a run begins.
#pragma once
#include "partita/config/schema.h"

namespace partita::internal {

void limit_sizes(ConfigSchema&);

}  // namespace partita::internal
