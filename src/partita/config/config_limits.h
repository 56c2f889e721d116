// Upper bounds of numeric configuration keys: a larger value is certainly a mistake, or products of sizes would
// overflow 64-bit integers (config.cc checks the products). Whether a run fits in memory is checked at startup.
#pragma once
#include "partita/config/schema.h"

namespace partita::internal {

void limit_sizes(ConfigSchema&);

}  // namespace partita::internal
