// Ranks of the job that a command describes without starting it.
#pragma once
#include <cstdint>

#include "partita/config/config.h"

namespace partita::cli {

// `asked`, or where it is 0 the smallest job: parallel.tensor x context x pipeline x data. A product that overflows
// gives 1, and is refused with its factors by validate_step.
[[nodiscard]] int64_t job_ranks(const ParallelConfig&, int64_t asked);

}  // namespace partita::cli
