// Configuration keys that were renamed since earlier versions.
//
//   schema.renamed(config_renames());     // a.toml:3: train.precision is now called precision.compute
#pragma once
#include <span>

#include "partita/config/schema.h"

namespace partita::internal {

[[nodiscard]] std::span<const ConfigRename> config_renames();

}  // namespace partita::internal
