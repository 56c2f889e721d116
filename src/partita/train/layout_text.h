// The layout of a run in one line. Pure.
//
//   layout_text(config, 8)   // "8 ranks = 2 tensor x 2 data x 2 pipeline, schedule 1f1b, ZeRO stage 3, bf16"
//   layout_text(config, 2)   // "2 ranks = 2 tensor (replicated: embedding, head), ZeRO stage 0, fp32"
#pragma once
#include <string>

#include "partita/config/config.h"

namespace partita::internal {

// Kinds of parallelism with one rank are left out. Requires a config that is valid for these ranks.
[[nodiscard]] std::string layout_text(const Config&, int64_t ranks);

}  // namespace partita::internal
