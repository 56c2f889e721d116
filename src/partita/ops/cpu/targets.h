// Which instruction sets the CPU kernels are compiled for: AVX-512, AVX2, and Highway's portable code for the rest.
// Each further one costs compile time in every file; nothing between them is met on machines that train.
// Included before any Highway header.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#include "partita/ops/cpu/isa_limit.h"

namespace partita::internal {

// In every file with kernels, so that whatever program has some obeys the limit: before main, once.
inline const bool kIsaLimitApplied = apply_isa_limit();

}  // namespace partita::internal
